import Vocabulary

/// A delivery's place in the order of claims, which is that of the index used.
struct ClaimPlace: Sendable, Comparable {
    var nextAttemptAt: Timestamp
    var receivedAt: Timestamp
    var key: Digest128

    /// Before all deliveries.
    static let start = ClaimPlace(
        nextAttemptAt: Timestamp(microseconds: 0),
        receivedAt: Timestamp(microseconds: 0),
        key: Digest128(high: 0, low: 0)
    )
    /// After all deliveries.
    static let end = ClaimPlace(
        nextAttemptAt: Timestamp(microseconds: .max),
        receivedAt: Timestamp(microseconds: .max),
        key: Digest128(high: .max, low: .max)
    )

    static func < (left: ClaimPlace, right: ClaimPlace) -> Bool {
        (left.nextAttemptAt, left.receivedAt, left.key) < (right.nextAttemptAt, right.receivedAt, right.key)
    }
}

/// What every claim returns about the database besides its rows.
struct ClaimSurroundings: Sendable {
    var now: Timestamp
    /// About how many index entries the table has, including those of deleted rows.
    var entries: Int64
    /// Whether the handler is paused: then an empty claim says nothing about the table.
    var isPaused: Bool
}

/// Decides where a handler's claims look, so that their cost depends on what they find and not on the table's size.
///
/// Claims go forward: each begins after the last, and reads neither what others hold nor index entries of finished
/// deliveries that an old snapshot keeps PostgreSQL from removing. What appears behind the front (an expired lease, a
/// slow commit) is found by examining the whole table piece by piece, each with a bounded number of entries. Keys are
/// hashes, so ranges of keys are pieces of the table.
struct ClaimWalk: Sendable {
    /// About how many entries a piece has.
    static let pieceEntries: Int64 = 2_000
    /// How many pieces an idle handler's walk, which is rarely asked, examines at once.
    static let idlePieces = 4
    /// How far the front stays behind the present.
    ///
    /// Rows are due from the begin of their transaction, and visible after its end. A full claim finds the next rows
    /// ahead, and needs less.
    static let lag: (idle: Duration, full: Duration) = (.seconds(2), .milliseconds(250))

    /// The place after which claims continue.
    private(set) var front = ClaimPlace.start
    /// Whether the last claim found less than its limit.
    var isIdle = false
    /// The table's entries; nil until a claim has told.
    var entries: Int64?
    /// The start of the next piece in the range of keys, and the end of the last.
    private var next: UInt64 = 0
    private var last = UInt64.max
    private var notBefore: ContinuousClock.Instant?

    /// The piece of the key range to examine now; nil if the last was too recent, or nothing is known of the table.
    ///
    /// Examining pieces takes a small part of the time, however large they are and however often claims are made.
    mutating func look(at now: ContinuousClock.Instant) -> ClosedRange<Digest128>? {
        guard let entries else { return nil }
        if let notBefore, now < notBefore { return nil }
        let pause = Duration.microseconds(40 * min(entries, Self.pieceEntries))
        var count = 1
        if isIdle, let notBefore, pause > .zero {
            count = Int(min(Double(Self.idlePieces), 1 + notBefore.duration(to: now) / pause))
        }
        notBefore = now + pause * count
        let size = UInt64.max >> Self.pieceBits(entries)
        last = next
        for number in 0..<count where last < .max {
            let (end, isBeyond) = (number == 0 ? next : last + 1).addingReportingOverflow(size)
            last = isBeyond ? .max : end
        }
        return Digest128(high: next, low: 0)...Digest128(high: last, low: .max)
    }

    /// Records that a piece was examined; one that held more than could be taken is examined again.
    mutating func looked(isExhausted: Bool, _ surroundings: ClaimSurroundings) {
        entries = surroundings.entries
        if isExhausted, !surroundings.isPaused { next = last &+ 1 }
    }

    /// Records a claim ahead of the front; `isFull` says that its limit ended it.
    mutating func claimed(upTo last: ClaimPlace?, isFull: Bool, _ surroundings: ClaimSurroundings) {
        entries = surroundings.entries
        guard !surroundings.isPaused else { return }
        isIdle = !isFull
        // After a failover, the new server's clock may be behind.
        if surroundings.now < front.nextAttemptAt { front = .start }
        let lag = isFull ? Self.lag.full : Self.lag.idle
        var latest = ClaimPlace.start
        latest.nextAttemptAt = surroundings.now - lag
        front = max(front, isFull ? min(last ?? latest, latest) : latest)
    }

    /// How many bits of a key choose the piece.
    private static func pieceBits(_ entries: Int64) -> UInt64 {
        let pieces = max(1, entries / pieceEntries)
        return min(20, UInt64(Int64.bitWidth - (pieces - 1).leadingZeroBitCount))
    }
}
