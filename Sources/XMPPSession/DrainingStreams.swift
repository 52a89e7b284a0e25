/// The draining streams of one connection slot, at most ``limit``.
///
/// Peers that never close them would pile up windows of messages. So the oldest is closed properly, and no other stream is
/// opened until all of it has settled.
struct DrainingStreams<Stream> {
    static var limit: Int { 2 }

    /// The oldest first.
    private var members: [(number: Int, stream: Stream)] = []
    /// The number of the stream whose end is awaited.
    private var awaited: Int?

    var all: [Stream] { members.map(\.stream) }

    /// Adds a stream that has begun to drain; returns the stream to close and to wait for if there is no room.
    mutating func began(_ number: Int, _ stream: Stream) -> Stream? {
        members.append((number, stream))
        guard members.count > Self.limit, let oldest = members.first else { return nil }
        awaited = oldest.number
        return oldest.stream
    }

    /// Removes a stream that has ended and has no copies in flight; returns whether its end was awaited.
    mutating func ended(_ number: Int) -> Bool {
        members.removeAll { $0.number == number }
        guard awaited == number else { return false }
        awaited = nil
        return true
    }
}
