package import Vocabulary

/// A handler that never waits or fails.
///
/// It gets all waiting messages in one call, which saves most of the dispatcher's cost of an attempt.
package protocol ImmediateHandler: UpstreamHandler {
    /// Takes these messages; all are done when it returns.
    func take(_ messages: [MessageOutline], handler: String)
}

/// A handler that passes its messages to another process or machine, so that none can crash this one.
package protocol ContainedHandler: UpstreamHandler {}

/// A message without ids, token and data, so that none of these is copied.
package struct MessageOutline: Sendable, Equatable {
    package var messageKey: Digest128
    package var deviceKey: Digest128
    package var category: String
    /// The size of its data in bytes; 0 without data.
    package var dataCount: Int
    package var attempt: Int

    package init(messageKey: Digest128, deviceKey: Digest128, category: String, dataCount: Int, attempt: Int) {
        self.messageKey = messageKey
        self.deviceKey = deviceKey
        self.category = category
        self.dataCount = dataCount
        self.attempt = attempt
    }

    package init(_ message: UpstreamMessage, attempt: Int) {
        self.init(
            messageKey: message.messageKey.digest,
            deviceKey: message.deviceKey.digest,
            category: message.category,
            dataCount: message.data?.count ?? 0,
            attempt: attempt
        )
    }
}
