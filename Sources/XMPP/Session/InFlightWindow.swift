/// Counts what one connection has delivered and is not settled yet, and decides when to stop reading.
///
/// The peer has a window of its own; ours is a little larger, so that a peer that respects it never makes us pause, and
/// one that does not can't fill our memory. Acks are exempt: writing never depends on this.
package struct InFlightWindow: Sendable {
    /// What to do about reading.
    package enum Action: Sendable, Equatable {
        case none
        case pause
        case resume
    }

    /// The number of unsettled messages at which reading pauses.
    package let messageLimit: Int
    /// The number of unsettled bytes at which reading pauses.
    package let byteLimit: Int
    /// The unsettled messages.
    package private(set) var messages = 0
    /// Their bytes.
    package private(set) var bytes = 0
    /// Whether the window has paused reading.
    package private(set) var isPaused = false

    /// An empty window.
    ///
    /// - Parameters:
    ///   - window: How many messages the peer may leave unacked (configuration key `window`); the limit is an eighth
    ///     and 8 above it.
    ///   - byteLimit: The bound on bytes. One message more is always accepted, so that even one larger than this
    ///     passes.
    package init(window: Int, byteLimit: Int = 8 << 20) {
        let window = max(window, 1)
        messageLimit = window + window / 8 + 8
        self.byteLimit = max(byteLimit, 1)
    }

    /// Counts a delivered message.
    package mutating func took(bytes count: Int) -> Action {
        messages += 1
        bytes += count
        guard !isPaused, messages >= messageLimit || bytes >= byteLimit else { return .none }
        isPaused = true
        return .pause
    }

    /// Counts settled messages: committed, whether acked or not.
    ///
    /// Reading resumes once half of both limits is free.
    package mutating func settled(messages count: Int, bytes settledBytes: Int) -> Action {
        messages = max(messages - count, 0)
        bytes = max(bytes - settledBytes, 0)
        guard isPaused, messages <= messageLimit / 2, bytes <= byteLimit / 2 else { return .none }
        isPaused = false
        return .resume
    }

    package var isEmpty: Bool { messages == 0 }
}
