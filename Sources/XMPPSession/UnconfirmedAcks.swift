import NIOCore

/// Acks that the server has not said it has, as a pure value: kept where the stream can be resumed, and sent again then.
///
/// Each piece is one write of acks, which shares its bytes with the write. The server says how far it got when it is asked
/// (``XMPP/StreamManagement/askAfter``), so there are usually no more than a few batches.
struct UnconfirmedAcks: Sendable {
    /// Acks of one write.
    struct Piece: Sendable {
        /// The number of the last one among our stanzas, modulo 2^32.
        var last: UInt32
        /// How many there are.
        var count: Int
        /// Their bytes.
        var bytes: ByteBuffer
        /// Whether they are counted as sent.
        var isCounted: Bool
    }

    /// More bytes than this are not kept, counted as they are allocated: a server that never says what it has does not get our
    /// memory.
    static let byteLimit = 4 << 20

    /// What is kept, in the order it was written.
    private(set) var pieces: [Piece] = []
    private var size = 0

    /// Takes a write in.
    ///
    /// - Returns: False where there is no room: nothing is kept any more.
    mutating func append(_ piece: Piece) -> Bool {
        size += piece.bytes.storageCapacity
        guard size <= UnconfirmedAcks.byteLimit else { return false }
        pieces.append(piece)
        return true
    }

    /// The write whose last ack has this number is done.
    mutating func wrote(_ last: UInt32) {
        guard let index = pieces.lastIndex(where: { $0.last == last }) else { return }
        pieces[index].isCounted = true
    }

    /// Whether the write whose last ack has this number is kept.
    func holds(_ last: UInt32) -> Bool { pieces.contains { $0.last == last } }

    /// The server has our stanzas up to this number.
    ///
    /// - Returns: How many acks that were not counted as sent it has.
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

    /// The acks behind the first so many; an ack's text holds no `<`, so its closing tag stands in it once.
    private static func tail(of bytes: ByteBuffer, after count: Int) -> ByteBuffer {
        let end = Array("</message>".utf8)
        var view = bytes.readableBytesView
        for _ in 0..<count {
            guard let range = view.firstRange(of: end) else { break }
            view = view[range.upperBound...]
        }
        return ByteBuffer(view)
    }

    /// How many acks are kept that are not counted as sent.
    var uncounted: Int { pieces.reduce(0) { $0 + ($1.isCounted ? 0 : $1.count) } }
}
