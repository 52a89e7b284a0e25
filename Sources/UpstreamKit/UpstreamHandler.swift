/// Takes the messages of one or more categories.
///
/// ```swift
/// struct TakeOrder: UpstreamHandler {
///     let orders: OrderService
///
///     func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
///         let order = try message.decode(Order.self)
///         try await orders.take(order, idempotencyKey: message.messageKey.description)
///         return .done
///     }
/// }
/// ```
///
/// Messages are committed and acked before a handler sees them, so a slow or failing handler delays only itself.
/// Each message arrives at least once: after a crash or a lost lease it arrives again, with the same
/// ``UpstreamMessage/messageKey``.
public protocol UpstreamHandler: Sendable {
    /// Handles one message.
    ///
    /// Calls run concurrently, up to the registration's concurrency. When the worker shuts down or
    /// ``HandlerContext/deadline`` passes, the task is cancelled: return or throw soon after; an attempt ended by a
    /// shutdown does not count.
    ///
    /// - Parameters:
    ///   - message: The message, as stored in the database.
    ///   - context: The attempt and its deadline.
    /// - Returns: What became of the message.
    /// - Throws: Any error. ``MessageDataError`` and other ``PermanentFailure``s reject the message; every other error
    ///   means ``HandlerOutcome/retry(after:reason:)``.
    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome

    /// Releases the handler's resources; called once, after the last call of `handle` has ended.
    ///
    /// The default does nothing.
    func shutdown() async
}

extension UpstreamHandler {
    /// Does nothing.
    public func shutdown() async {}
}

/// An error that a retry can't fix: throwing it makes the message a dead letter at once.
///
/// Its description is stored with the dead letter, so it must not quote the payload.
public protocol PermanentFailure: Error {}

extension MessageDataError: PermanentFailure {}

/// A handler made of a closure, for short ones and for tests.
public struct ClosureHandler: UpstreamHandler {
    private let body: @Sendable (UpstreamMessage, HandlerContext) async throws -> HandlerOutcome

    /// A handler that calls `body`.
    public init(_ body: @escaping @Sendable (UpstreamMessage, HandlerContext) async throws -> HandlerOutcome) {
        self.body = body
    }

    /// Calls the closure.
    public func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        try await body(message, context)
    }
}
