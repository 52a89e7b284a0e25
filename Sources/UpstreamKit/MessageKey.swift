package import Vocabulary

/// Identifies a message: the first 16 bytes of a SHA-256 over its sender and id.
///
/// It is the key of every table, the `message_key` of logs and the `webhook-id` of webhooks. It stays the same over
/// redelivery, retries and replays, which makes it the right idempotency key for a handler's own effects.
public struct MessageKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 128 bits.
    package var digest: Digest128

    /// The key with these 128 bits.
    package init(_ digest: Digest128) {
        self.digest = digest
    }

    /// The key written as a UUID: `8-4-4-4-12` hex digits in either case.
    ///
    /// - Parameter text: What ``description`` gives, or what PostgreSQL prints for the `uuid` column.
    public init?(_ text: String) {
        guard let digest = Digest128(uuid: text.utf8) else { return nil }
        self.digest = digest
    }

    /// The order of PostgreSQL's `uuid`.
    public static func < (lhs: MessageKey, rhs: MessageKey) -> Bool { lhs.digest < rhs.digest }

    /// The UUID text form, lower case.
    public var description: String { digest.description }
}

/// Stands for a device wherever its registration token must not be shown: the first 16 bytes of the token's SHA-256.
public struct DeviceKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 128 bits.
    package var digest: Digest128

    /// The key with these 128 bits.
    package init(_ digest: Digest128) {
        self.digest = digest
    }

    /// The key written as a UUID: `8-4-4-4-12` hex digits in either case.
    ///
    /// - Parameter text: What ``description`` gives, or what PostgreSQL prints for the `uuid` column.
    public init?(_ text: String) {
        guard let digest = Digest128(uuid: text.utf8) else { return nil }
        self.digest = digest
    }

    /// The order of PostgreSQL's `uuid`.
    public static func < (lhs: DeviceKey, rhs: DeviceKey) -> Bool { lhs.digest < rhs.digest }

    /// The UUID text form, lower case.
    public var description: String { digest.description }
}
