package enum AttemptEnd: Sendable {
    /// The handler's verdict, to be settled.
    case verdict(HandlerVerdict)
    /// Done, and its row deleted in the handler's own transaction.
    case settled
    /// Another worker holds the row.
    case lost
}

extension HandlerFailure {
    package static let timedOut = HandlerFailure(
        group: "timeout",
        detail: "the attempt took longer than the handler's timeout"
    )

    package static let missing = HandlerFailure(
        group: "message gone",
        detail: "the message is past retention, or its device was forgotten"
    )

    /// Workers keep dying while they hold the message.
    package static func crashed(times: Int) -> HandlerFailure {
        HandlerFailure(
            group: "worker crashed",
            detail:
                "\(times) workers in a row died while they held the message; it is a dead letter instead of being retried"
        )
    }
}
