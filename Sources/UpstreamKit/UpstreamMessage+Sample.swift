import Vocabulary

extension UpstreamMessage {
    /// A made-up message for a handler's tests.
    ///
    /// ```swift
    /// let message = UpstreamMessage.sample(category: "com.example.orders", data: #"{"item":"tea","quantity":2}"#)
    /// let outcome = try await TakeOrder().handle(message, context: HandlerContext(handler: "orders"))
    /// ```
    ///
    /// The keys are constants, not the digests that the worker computes.
    ///
    /// - Parameters:
    ///   - category: The app it came from.
    ///   - data: The JSON text of its data.
    ///   - messageID: The id that the device gave it.
    ///   - senderID: The sender it was addressed to.
    ///   - messageKey: Its key, for tests that need several messages.
    /// - Returns: A message with these values and made-up others.
    public static func sample(
        category: String,
        data: String?,
        messageID: String = "sample",
        senderID: String = "1234567890",
        messageKey: MessageKey? = nil
    ) -> UpstreamMessage {
        UpstreamMessage(
            messageKey: messageKey ?? MessageKey(Digest128(high: 0x5A, low: 0x5A)),
            messageID: messageID,
            senderID: senderID,
            category: category,
            registrationToken: RegistrationToken("sample registration token"),
            deviceKey: DeviceKey(Digest128(high: 0xDE, low: 0x71CE)),
            data: data.map { Array($0.utf8) },
            extra: nil,
            messageType: nil,
            receivedAtMicroseconds: 1_767_225_600_000_000
        )
    }
}
