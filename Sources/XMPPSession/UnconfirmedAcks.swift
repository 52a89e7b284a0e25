import NIOCore
import Telemetry
import XMPP

/// Acks that the server has not confirmed, kept to be sent again when the stream is resumed: usually no more than a few
/// batches, since the server is asked (``XMPP/StreamManagement/askAfter``).
struct UnconfirmedAcks: Sendable {
    struct Piece: Sendable {
        /// The number of the last ack among our stanzas, modulo 2^32.
        var last: UInt32
        var count: Int
        var bytes: ByteBuffer
        var isCounted: Bool
    }

    /// The most bytes kept, counted as allocated: a server that never confirms does not get our memory.
    static let byteLimit = 4 << 20

    private(set) var pieces: [Piece] = []
    private var size = 0

    /// Adds a write; returns false if there is no room, and nothing is kept any more.
    mutating func append(_ piece: Piece) -> Bool {
        size += piece.bytes.storageCapacity
        guard size <= UnconfirmedAcks.byteLimit else { return false }
        pieces.append(piece)
        return true
    }

    /// Marks the write with this last number as done.
    mutating func wrote(_ last: UInt32) {
        guard let index = pieces.lastIndex(where: { $0.last == last }) else { return }
        pieces[index].isCounted = true
    }

    func holds(_ last: UInt32) -> Bool { pieces.contains { $0.last == last } }

    /// Drops our stanzas up to this number, which the server has; returns how many of their acks were not counted.
    @discardableResult
    mutating func confirm(_ number: UInt32) -> Int {
        var uncounted = 0
        while let piece = pieces.first {
            // Signed, so that it holds across the wrap.
            let missing = Int(Int32(bitPattern: piece.last &- number))
            if missing >= piece.count { break }
            let had = piece.count - max(missing, 0)
            if !piece.isCounted { uncounted += had }
            size -= piece.bytes.storageCapacity
            guard missing > 0 else {
                pieces.removeFirst()
                continue
            }
            pieces[0].bytes = UnconfirmedAcks.tail(of: piece.bytes, after: had)
            pieces[0].count = missing
            size += pieces[0].bytes.storageCapacity
            break
        }
        return uncounted
    }

    /// The acks after the first `count`; an ack's text holds no `<`, so its closing tag occurs once.
    private static func tail(of bytes: ByteBuffer, after count: Int) -> ByteBuffer {
        let end = Array("</message>".utf8)
        var view = bytes.readableBytesView
        for _ in 0..<count {
            guard let range = view.firstRange(of: end) else { break }
            view = view[range.upperBound...]
        }
        return ByteBuffer(view)
    }

    /// The number of kept acks not counted as sent.
    var uncounted: Int { pieces.reduce(0) { $0 + ($1.isCounted ? 0 : $1.count) } }
}

/// The stream of a lost connection, resumed over the next one; a class, because every connection reserves room for it.
final class SuspendedStream: Sendable {
    let session: SuspendedSession
    /// The acks that the server may lack, including those of messages committed after the loss.
    let acks: UnconfirmedAcks
    /// Until when the server holds it, in nanoseconds of the monotonic clock.
    let heldUntil: UInt64

    init(session: SuspendedSession, acks: UnconfirmedAcks, heldUntil: UInt64) {
        self.session = session
        self.acks = acks
        self.heldUntil = heldUntil
    }

    func isHeld(now: UInt64) -> Bool { held(now: now) > .zero }

    /// For how long the server goes on holding it.
    func held(now: UInt64) -> Duration { .nanoseconds(Int64(clamping: heldUntil > now ? heldUntil - now : 0)) }

    /// The host where the server wants it to be resumed.
    var location: String? { session.management.location }

    /// Gives it up with its unsent acks: the messages are redelivered and acked then, or, if a `<resume/>` has reported
    /// them to the server, only if their devices send them again.
    func abandon(_ metrics: Metrics) { metrics.acks[.connectionGone].increment(by: acks.uncounted) }
}
