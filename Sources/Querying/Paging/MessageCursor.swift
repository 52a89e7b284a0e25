package import UpstreamKit

/// A place in the order of messages: the primary key of `upstream.messages`.
///
/// Its text form is `2026-01-31T23:59:59.123456Z/7d1c0a52-0000-4000-8000-000000000001`.
package struct MessageCursor: Sendable, Equatable, Comparable, CustomStringConvertible {
    /// Microseconds since 1970-01-01 UTC.
    package var receivedAt: Int64
    /// Tells messages of one microsecond apart.
    package var messageKey: MessageKey

    package init(receivedAt: Int64, messageKey: MessageKey) {
        self.receivedAt = receivedAt
        self.messageKey = messageKey
    }

    /// Reads the text form; nil for another text.
    package init?(_ text: String) {
        guard let slash = text.lastIndex(of: "/"), let key = MessageKey(String(text[text.index(after: slash)...])),
            let time = try? TimeExpression.moment(String(text[..<slash]))
        else { return nil }
        self.init(receivedAt: time, messageKey: key)
    }

    package var description: String { "\(TimeText.rfc3339(receivedAt))/\(messageKey)" }

    package static func < (lhs: MessageCursor, rhs: MessageCursor) -> Bool {
        (lhs.receivedAt, lhs.messageKey) < (rhs.receivedAt, rhs.messageKey)
    }
}

/// In which direction pages go.
package enum PageOrder: Sendable {
    /// The latest first.
    case newestFirst
    /// In the order of arrival.
    case oldestFirst
}
