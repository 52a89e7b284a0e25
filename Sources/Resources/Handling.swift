package import MessageStore
import Vocabulary

// The fields of pending deliveries, dead letters, and attempts.

extension DeadLetterCursor: LosslessStringConvertible {}
extension WaitingCursor: LosslessStringConvertible {}

extension DeadLetter: ShownResource {
    package static let resource = "DeadLetter"
    package static let fields: [Field<DeadLetter>] = [
        Field("died_at", "DIED") { $0.diedAt },
        Field("handler", TableColumn("HANDLER", dropOrder: 1)) { $0.handler },
        Field("message_key", "MESSAGE") { $0.messageKey },
        Field(
            "category",
            TableColumn("CATEGORY", minimum: 10, dropOrder: 3, cut: .middle),
            look: .tag,
            about: "null where the message is gone"
        ) { $0.category },
        Field("attempts", TableColumn("ATTEMPTS", dropOrder: 4)) { $0.attempts },
        .group("error_group", \.group, TableColumn("ERROR GROUP", minimum: 14, dropOrder: 2)),
        Field("received_at", .extra("RECEIVED")) { $0.receivedAt },
        .words("error", \.error, .extra("ERROR")),
        Field("replay_id", about: "the replay that asked for the delivery") { $0.replayID },
    ]
}

extension DeadLetterGroup: ShownResource {
    package static let resource = "DeadGroup"
    package static let fields: [Field<DeadLetterGroup>] = [
        Field("count", "COUNT") { $0.count },
        Field("handler", "HANDLER") { $0.handler },
        Field("first_died_at", TableColumn("FIRST", dropOrder: 2), label: "First died") { $0.first },
        Field("last_died_at", TableColumn("LAST", dropOrder: 1), label: "Last died") { $0.last },
        .group("error_group", \.group, TableColumn("ERROR GROUP", minimum: 14)),
        Field("counted_to", about: "where the count stops; null where it does not") { $0.countedTo },
    ]
}

extension WaitingDelivery.Reason: ShownWord {}

extension WaitingDelivery: ShownResource {
    package static let resource = "Delivery"
    package static let about: StaticString? = "A delivery that is not done, with why it waits and when it is due."
    package static let fields: [Field<WaitingDelivery>] = [
        Field("due_at", "DUE") { $0.dueAt },
        Field("handler", TableColumn("HANDLER", minimum: 8)) { $0.handler },
        Field("message_key", "MESSAGE") { $0.messageKey },
        Field("category", TableColumn("CATEGORY", minimum: 10, dropOrder: 4, cut: .middle), look: .tag) { $0.category },
        Field("reason", TableColumn("REASON", dropOrder: 1).ofStates) {
            $0.reason
        } cell: {
            $0.reason == .held
                ? $0.heldUntil.map { "held until \($0.cell)" } ?? "held, \(HandlerBreaker.probeDue)"
                : $0.reason.rawValue
        },
        Field("attempts", TableColumn("ATTEMPTS", dropOrder: 3), about: "those that failed and count") { $0.attempts },
        .group("error_group", \.errorGroup, TableColumn("ERROR", minimum: 14, dropOrder: 2)) {
            $0.errorGroup ?? $0.error ?? $0.heldReason ?? "-"
        },
        Field("received_at", .extra("RECEIVED")) { $0.receivedAt },
        .words("error", \.error, .extra("LATEST ERROR")),
        Field("worker", .extra("WORKER"), about: "the worker that has it in hand") { $0.leaseOwner },
        Field("lease_until") { $0.leaseUntil },
        Field("paused_until") { $0.pausedUntil },
        Field("paused_reason") { $0.pausedReason },
        Field("held_until", about: "Until when the handler asked for a pause (Retry-After), or its circuit stays open.")
        {
            $0.heldUntil
        },
        Field("held_reason") { $0.heldReason },
        Field("replay_id") { $0.replayID },
        Field("in_block", about: "whether it is in the memory of the worker that stored its message") { $0.isInBlock },
    ]
}
