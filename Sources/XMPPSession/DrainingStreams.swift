/// Which streams of one connection slot are draining, and how many may be, as a pure value.
///
/// A peer that announces draining gets a replacement at once, and should then close the old stream. One that never does
/// would pile up streams, and each brings a window of messages, which in an outage stay in memory. So at most ``limit`` are
/// kept: the oldest is closed in order, and no other stream is opened until everything it brought has settled.
package struct DrainingStreams: Sendable {
    /// The most streams that drain beside the one that receives.
    package static let limit = 2

    /// The numbers of the streams, the oldest first.
    private var numbers: [Int] = []

    /// No stream drains.
    package init() {}

    /// A stream has begun to drain.
    ///
    /// - Returns: The one to be closed for it, and to be waited for; nil where there is room.
    package mutating func began(_ number: Int) -> Int? {
        numbers.append(number)
        return numbers.count > DrainingStreams.limit ? numbers.first : nil
    }

    /// A stream has ended, and nothing that came over it is in flight any more.
    package mutating func ended(_ number: Int) { numbers.removeAll { $0 == number } }

    /// How many there are.
    package var count: Int { numbers.count }
}
