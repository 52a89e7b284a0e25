/// How much one connection has delivered that is not settled yet, and when to stop reading for it.
///
/// The peer has a window of its own; ours is a little larger, so that a peer that respects it never makes us pause, and one
/// that does not can't fill our memory. Acks are exempt: writing never depends on this.
package struct InFlightWindow: Sendable {
    /// What to do about reading.
    package enum Action: Sendable, Equatable {
        /// Leave it as it is.
        case none
        /// Stop.
        case pause
        /// Begin again.
        case resume
    }

    /// At this many unsettled messages reading pauses.
    package let messageLimit: Int
    /// At this many unsettled bytes reading pauses.
    package let byteLimit: Int
    /// The unsettled messages.
    package private(set) var messages = 0
    /// Their bytes.
    package private(set) var bytes = 0
    /// Whether reading is paused for the window's sake.
    package private(set) var isPaused = false

    /// An empty window.
    ///
    /// - Parameters:
    ///   - window: What the peer is allowed to leave unacked (configuration key `window`); the limit is an eighth and 8
    ///     above it.
    ///   - byteLimit: The bound on bytes. One message more is always taken, so that even one larger than this passes.
    package init(window: Int, byteLimit: Int = 8 << 20) {
        let window = max(window, 1)
        messageLimit = window + window / 8 + 8
        self.byteLimit = max(byteLimit, 1)
    }

    /// A message was delivered.
    package mutating func took(bytes count: Int) -> Action {
        messages += 1
        bytes += count
        guard !isPaused, messages >= messageLimit || bytes >= byteLimit else { return .none }
        isPaused = true
        return .pause
    }

    /// Messages were settled: committed, whether acked or not.
    ///
    /// Reading resumes once half of both limits is free.
    package mutating func settled(messages count: Int, bytes settledBytes: Int) -> Action {
        messages = max(messages - count, 0)
        bytes = max(bytes - settledBytes, 0)
        guard isPaused, messages <= messageLimit / 2, bytes <= byteLimit / 2 else { return .none }
        isPaused = false
        return .resume
    }

    /// Whether nothing is unsettled.
    package var isEmpty: Bool { messages == 0 }
}
