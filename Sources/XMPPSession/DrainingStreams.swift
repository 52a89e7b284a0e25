/// The draining streams of one connection slot, limited in number.
///
/// A peer that announces draining gets a replacement at once, and should then close the old stream. Peers that never do
/// would pile up streams, each with a window of messages, which in an outage stay in memory. So at most ``limit`` are
/// kept: the oldest is closed properly, and no other stream is opened until everything it brought has settled.
package struct DrainingStreams: Sendable {
    package static let limit = 2

    /// The streams' numbers, the oldest first.
    private var numbers: [Int] = []

    package init() {}

    /// Adds a stream that has begun to drain.
    ///
    /// - Returns: The stream to close and to wait for; nil if there is room.
    package mutating func began(_ number: Int) -> Int? {
        numbers.append(number)
        return numbers.count > DrainingStreams.limit ? numbers.first : nil
    }

    /// Removes a stream that has ended and has no copies in flight.
    package mutating func ended(_ number: Int) { numbers.removeAll { $0 == number } }

    package var count: Int { numbers.count }
}
