package import Vocabulary

/// A handler that takes a message on the spot: it waits for nothing and never fails.
///
/// It is given what waits with one call, which saves most of what an attempt costs the dispatcher.
package protocol ImmediateHandler: UpstreamHandler {
    /// Takes these messages; all are done when it returns.
    ///
    /// - Parameters:
    ///   - messages: In their order.
    ///   - handler: The name the handler is registered under.
    func take(_ messages: [MessageOutline], handler: String)
}

/// A handler that hands its messages to another process or machine: none of them can crash this one.
package protocol ContainedHandler: UpstreamHandler {}

/// What is told of a message where nobody wants its ids, token and data: none of these is copied for it.
package struct MessageOutline: Sendable, Equatable {
    /// The key of every table.
    package var messageKey: Digest128
    /// The digest of its token.
    package var deviceKey: Digest128
    /// The app it came from.
    package var category: String
    /// How many bytes its data has; 0 without.
    package var dataCount: Int
    /// Which attempt this is, from 1.
    package var attempt: Int

    package init(messageKey: Digest128, deviceKey: Digest128, category: String, dataCount: Int, attempt: Int) {
        self.messageKey = messageKey
        self.deviceKey = deviceKey
        self.category = category
        self.dataCount = dataCount
        self.attempt = attempt
    }

    /// The outline of a whole message.
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
