package import MessageStore
package import Querying
import Vocabulary

// What the lists can be narrowed by: options, parameters, members of bodies and forms come from here.

extension MessageFilter: Filtered {
    package static let filters: [FilterField<MessageFilter>] = [
        .texts(
            "category",
            \.categories,
            "Category",
            "Only this category; given several times, any of them.",
            exampleCategory
        ),
        .text("message_id", \.messageID, "Message id", "Only with this id, compared as bytes.", "exact id"),
        .message(\.messageKey),
        .device(\.deviceKey),
        .text("sender", \.senderID, "Sender", "Only to this sender.", "1234567890"),
        .since(
            "Received since",
            "Received at or after: 2h, 30d, yesterday, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without an offset)."
        ),
        .until("Received before", "Received before."),
        .clauses(\.clauses, sees: \.seesTokens),
    ]
}

extension QuarantineQuery: Filtered {
    package static let filters: [FilterField<QuarantineQuery>] = [
        .word("reason", QuarantineReason.self, \.reason, "Reason", "Only for this reason, from a closed set."),
        .text("sender", \.senderID, "Sender", "Only to this sender.", "1234567890"),
        .text("message_id", \.messageID, "Message id", "Only with this id, compared as bytes.", "exact id"),
        .since("Received since", "First received at or after, for example 2h or 2026-01-31."),
        .until("Received before", "First received before."),
        .word(
            "state",
            QuarantineQuery.State.self,
            \.state,
            "State",
            "Only those that were dismissed and did not come again, or all; without it those that are open."
        ),
    ]
}

extension DeadLetterFilter: Filtered {
    package static let filters: [FilterField<DeadLetterFilter>] = [
        .text("handler", \.handler, "Handler", "Only of this handler.", "billing"),
        .group(\.group, "Only of this error group."),
        .text("category", \.category, "Category", "Only of this category.", exampleCategory),
        .messages(\.messageKeys),
        .since("Died since", "Died at or after, for example 1h, yesterday or 2026-01-31."),
        .until("Died before", "Died before, for example 1d."),
    ]
}

extension DeadGroupFilter: Filtered {
    package static let filters: [FilterField<DeadGroupFilter>] = [
        .text("handler", \.handler, "Handler", "Only of this handler.", "billing"),
        .text("text", \.text, "Text", "Only those whose handler or error group has this in its name.", "status 503"),
        .since("Died since", "Counts what died at or after, for example 1h, yesterday or 2026-01-31."),
        .until("Died before", "Counts what died before, for example 1d."),
    ]
}

extension WaitingFilter: Filtered {
    package static let filters: [FilterField<WaitingFilter>] = [
        .text("handler", \.handler, "Handler", "Only to this handler.", "billing"),
        .text("category", \.category, "Category", "Only of this category.", exampleCategory),
        .message(\.messageKey),
        .group(\.errorGroup, "Only those whose latest attempt failed so: an error group."),
        .since("Received since", "The message was received at or after: 2h, 2026-01-31."),
        .until("Received before", "The message was received before."),
    ]
}

extension AuditFilter: Filtered {
    package static let filters: [FilterField<AuditFilter>] = [
        .text("who", \.who, "Who", "Only by this name.", "on-call"),
        .text("action", \.action, "Action", "Only this action, or group of actions.", "dead.retry"),
        .since("Since", "At or after."),
        .until("Until", "Before."),
    ]
}

private let exampleCategory: StaticString = "com.example.orders"
