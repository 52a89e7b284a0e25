package import MessageStore
package import Querying
import Vocabulary

// What the lists can be narrowed by: options, parameters, members of bodies and forms come from here.

extension MessageFilter: Filtered {
    package static let filters: [FilterField<MessageFilter>] = [
        .texts(
            "category",
            \.categories,
            "Only this category; given several times, any of them.",
            form: ("Category", "com.example.orders")
        ),
        .text(
            "message_id",
            \.messageID,
            "Only with this id, compared as bytes.",
            form: ("Message id", "exact id")
        ),
        .message(\.messageKey),
        .device(\.deviceKey),
        .text("sender", \.senderID, "Only to this sender.", form: ("Sender", "1234567890")),
        .time(
            "since",
            \.since,
            "Received at or after: 2h, 30d, yesterday, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without an offset).",
            form: ("Received since", "2h, yesterday, 2026-01-31")
        ),
        .time("until", \.until, "Received before.", form: ("Received before", "now")),
        .clauses(\.clauses, sees: \.seesTokens),
    ]
}

extension QuarantineQuery: Filtered {
    package static let filters: [FilterField<QuarantineQuery>] = [
        .word(
            "reason",
            QuarantineReason.self,
            \.reason,
            "Only for this reason, from a closed set.",
            label: "Reason"
        ),
        .text("sender", \.senderID, "Only to this sender.", form: ("Sender", "1234567890")),
        .text("message_id", \.messageID, "Only with this id, compared as bytes.", form: ("Message id", "exact id")),
        .time(
            "since",
            \.since,
            "First received at or after, for example 2h or 2026-01-31.",
            form: ("Received since", "2h, yesterday, 2026-01-31")
        ),
        .time("until", \.until, "First received before.", form: ("Received before", "now")),
    ]
}

extension DeadLetterFilter: Filtered {
    package static let filters: [FilterField<DeadLetterFilter>] = [
        .text("handler", \.handler, "Only of this handler.", form: ("Handler", "")),
        .group(\.group, "Only of this error group."),
        .text("category", \.category, "Only of this category.", form: ("Category", "com.example.orders")),
        .message(\.messageKey),
        .time(
            "since",
            \.since,
            "Died at or after, for example 1h, yesterday or 2026-01-31.",
            form: ("Died since", "2h, yesterday, 2026-01-31")
        ),
        .time("until", \.until, "Died before, for example 1d.", form: ("Died before", "now")),
    ]
}

extension WaitingFilter: Filtered {
    package static let filters: [FilterField<WaitingFilter>] = [
        .text("handler", \.handler, "Only to this handler.", form: ("Handler", "")),
        .text("category", \.category, "Only of this category.", form: ("Category", "com.example.orders")),
        .message(\.messageKey),
        .group(\.errorGroup, "Only those whose latest attempt failed so: an error group."),
        .time(
            "since",
            \.since,
            "The message was received at or after: 2h, 2026-01-31.",
            form: ("Received since", "2h, yesterday, 2026-01-31")
        ),
        .time("until", \.until, "The message was received before.", form: ("Received before", "now")),
    ]
}

extension AuditFilter: Filtered {
    package static let filters: [FilterField<AuditFilter>] = [
        .text("who", \.who, "Only by this name.", form: ("Who", "")),
        .text("action", \.action, "Only this action, or group of actions.", form: ("Action", "dead.retry")),
        .time("since", \.since, "At or after.", form: ("Since", "2h, yesterday, 2026-01-31")),
        .time("until", \.until, "Before.", form: ("Until", "now")),
    ]
}
