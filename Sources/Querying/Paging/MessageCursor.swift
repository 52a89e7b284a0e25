import Digests
package import Postgres
package import UpstreamKit
package import Vocabulary

/// A position in the order of messages: the primary key of `upstream.messages`.
///
/// Its text form is `2026-01-31T23:59:59.123456Z/7d1c0a52-0000-4000-8000-000000000001`.
package struct MessageCursor: Sendable, Equatable, CustomStringConvertible {
    package var receivedAt: Timestamp
    /// Distinguishes messages of the same microsecond.
    package var messageKey: MessageKey

    package init(receivedAt: Timestamp, messageKey: MessageKey) {
        self.receivedAt = receivedAt
        self.messageKey = messageKey
    }

    package init?(_ text: String) {
        guard let slash = text.lastIndex(of: "/"), let key = MessageKey(String(text[text.index(after: slash)...])),
            let time = try? TimeExpression.moment(String(text[..<slash]))
        else { return nil }
        self.init(receivedAt: time, messageKey: key)
    }

    package var description: String { "\(receivedAt.rfc3339)/\(messageKey)" }
}

extension DeviceKey {
    /// The key of the device that holds this token: the first 16 bytes of its SHA-256.
    package init(of token: RegistrationToken) {
        self.init(Digest128(hashing: token.rawValue))
    }
}

extension MessageKey: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Digest128(field)) }
}

extension DeviceKey: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Digest128(field)) }
}

package enum PageOrder: Sendable {
    case newestFirst
    case oldestFirst
}
