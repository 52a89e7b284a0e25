/// Counts what one connection has delivered and is not settled yet, and decides when to stop reading: a little above
/// the peer's own window, so that only a peer that ignores it makes us pause.
package struct InFlightWindow: Sendable {
    package let messageLimit: Int
    package let byteLimit: Int
    package private(set) var messages = 0
    package private(set) var bytes = 0
    package private(set) var isPaused = false

    /// An empty window: the limit is an eighth and 8 above what the peer may leave unacked (configuration key
    /// `window`), and one message more than the bound on bytes is always accepted.
    package init(window: Int, byteLimit: Int = 8 << 20) {
        let window = max(window, 1)
        messageLimit = window + window / 8 + 8
        self.byteLimit = max(byteLimit, 1)
    }

    /// Counts a delivered message; returns whether reading pauses now.
    package mutating func took(bytes count: Int) -> Bool {
        messages += 1
        bytes += count
        guard !isPaused, messages >= messageLimit || bytes >= byteLimit else { return false }
        isPaused = true
        return true
    }

    /// Counts settled messages, acked or not; returns whether reading resumes, as half of both limits is free.
    package mutating func settled(messages count: Int, bytes settledBytes: Int) -> Bool {
        messages = max(messages - count, 0)
        bytes = max(bytes - settledBytes, 0)
        guard isPaused, messages <= messageLimit / 2, bytes <= byteLimit / 2 else { return false }
        isPaused = false
        return true
    }

    package var isEmpty: Bool { messages == 0 }
}
