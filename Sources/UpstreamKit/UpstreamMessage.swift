public import FoundationEssentials

/// A message from a device, as stored in the database.
///
/// A handler receives it after it has been committed and acked, possibly more than once (at-least-once delivery);
/// ``messageKey`` stays the same each time.
public struct UpstreamMessage: Sendable {
    /// Identifies the message in every table and log.
    public var messageKey: MessageKey

    /// The id that the device gave the message, unique for ``senderID`` (with `id_scope: device`, for the token as
    /// well).
    public var messageID: String

    /// The sender (project) that the message was addressed to.
    public var senderID: String

    /// The app the message came from, usually its package name.
    public var category: String

    /// The token of the sending app instance: a secret, masked when printed.
    public var registrationToken: RegistrationToken

    /// Identifies the device without revealing the token.
    public var deviceKey: DeviceKey

    /// The verbatim JSON text of the message's `data` in UTF-8; nil if the message had none.
    ///
    /// Valid JSON of any type, usually an object, perhaps with repeated keys, `\u0000`, lone surrogates or numbers that
    /// no machine type can hold. Read it with ``decode(_:using:)``.
    public var data: [UInt8]?

    /// A JSON object of the envelope's other members, verbatim and in order; nil if there were none.
    public var extra: [UInt8]?

    /// Nil for a device's message, `receipt` for a delivery receipt.
    public var messageType: String?

    /// When the worker parsed the stanza, by the database's clock, in microseconds since 1970-01-01 00:00 UTC.
    public var receivedAtMicroseconds: Int64

    /// A message with these fields.
    public init(
        messageKey: MessageKey,
        messageID: String,
        senderID: String,
        category: String,
        registrationToken: RegistrationToken,
        deviceKey: DeviceKey,
        data: [UInt8]?,
        extra: [UInt8]?,
        messageType: String?,
        receivedAtMicroseconds: Int64
    ) {
        self.messageKey = messageKey
        self.messageID = messageID
        self.senderID = senderID
        self.category = category
        self.registrationToken = registrationToken
        self.deviceKey = deviceKey
        self.data = data
        self.extra = extra
        self.messageType = messageType
        self.receivedAtMicroseconds = receivedAtMicroseconds
    }

    /// When the worker parsed the stanza, by the database's clock.
    public var receivedAt: Date {
        Date(timeIntervalSince1970: Double(receivedAtMicroseconds) / 1_000_000)
    }

    /// Whether this is a delivery receipt rather than a device's message.
    public var isReceipt: Bool { messageType == "receipt" }
}

extension UpstreamMessage: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The key only: ids, tokens and payload stay out of any text.
    public var description: String { "UpstreamMessage(\(messageKey))" }

    /// The key only.
    public var debugDescription: String { description }

    /// Shows the keys of message and device only.
    public var customMirror: Mirror {
        Mirror(self, children: ["messageKey": messageKey, "deviceKey": deviceKey])
    }
}
