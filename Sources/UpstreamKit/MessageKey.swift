package import Vocabulary

/// Identifies a message: the first 16 bytes of a SHA-256 over its sender and id.
///
/// It is the `message_key` of tables and logs and the `webhook-id` of webhooks. Redelivery, retries and replays keep it:
/// use it as the idempotency key of your effects.
public struct MessageKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var digest: Digest128

    package init(_ digest: Digest128) {
        self.digest = digest
    }

    /// Parses a UUID: `8-4-4-4-12` hex digits in either case.
    public init?(_ text: String) {
        guard let digest = Digest128(uuid: text.utf8) else { return nil }
        self.digest = digest
    }

    /// The order of PostgreSQL's `uuid`.
    public static func < (lhs: MessageKey, rhs: MessageKey) -> Bool { lhs.digest < rhs.digest }

    /// The UUID text form, lower case.
    public var description: String { digest.description }
}

/// Identifies a device without revealing its registration token: the first 16 bytes of the token's SHA-256.
public struct DeviceKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var digest: Digest128

    package init(_ digest: Digest128) {
        self.digest = digest
    }

    /// Parses a UUID: `8-4-4-4-12` hex digits in either case.
    public init?(_ text: String) {
        guard let digest = Digest128(uuid: text.utf8) else { return nil }
        self.digest = digest
    }

    /// The order of PostgreSQL's `uuid`.
    public static func < (lhs: DeviceKey, rhs: DeviceKey) -> Bool { lhs.digest < rhs.digest }

    /// The UUID text form, lower case.
    public var description: String { digest.description }
}
