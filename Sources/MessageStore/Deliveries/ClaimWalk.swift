import UpstreamKit
import Vocabulary

/// A delivery's place in the order in which deliveries are claimed: that of the index behind it.
struct ClaimPlace: Sendable, Comparable {
    /// When it is due.
    var nextAttemptAt: Timestamp
    /// The message's `received_at`.
    var receivedAt: Timestamp
    /// The message's key.
    var key: Digest128

    /// Before everything.
    static let start = ClaimPlace(
        nextAttemptAt: Timestamp(microseconds: 0),
        receivedAt: Timestamp(microseconds: 0),
        key: Digest128(high: 0, low: 0)
    )
    /// Behind everything.
    static let end = ClaimPlace(
        nextAttemptAt: Timestamp(microseconds: .max),
        receivedAt: Timestamp(microseconds: .max),
        key: Digest128(high: .max, low: .max)
    )

    static func < (left: ClaimPlace, right: ClaimPlace) -> Bool {
        if left.nextAttemptAt != right.nextAttemptAt { return left.nextAttemptAt < right.nextAttemptAt }
        if left.receivedAt != right.receivedAt { return left.receivedAt < right.receivedAt }
        return left.key < right.key
    }
}

/// What every claim returns about the database beside its rows.
struct ClaimSurroundings: Sendable {
    /// The database's time.
    var now: Timestamp
    /// About how many index entries the table has, those of deleted rows included.
    var entries: Int64
    /// Whether the handler is paused: then an empty claim says nothing about the table.
    var isPaused: Bool
}

/// Decides where each claim of a handler looks, so that its cost depends on what it finds and not on what is there.
///
/// Claims go forward: each begins behind the last, and reads neither what others hold nor, as long as an old snapshot
/// keeps PostgreSQL from clearing them away, the entries of what is done. What comes up behind the front (a lease that
/// ended with its worker, a commit that took long) is found by looks at the whole of the table, one piece of a bounded
/// number of entries after the other. Keys are hashes, so pieces of their range are pieces of the table.
struct ClaimWalk: Sendable {
    /// About how many entries one piece has.
    static let pieceEntries: Int64 = 2_000
    /// How many pieces a walk that is asked rarely, because there is little to claim, looks at in one go.
    static let idlePieces = 4
    /// How far the front stays behind the present.
    ///
    /// Rows are due from the begin of their transaction, and seen after its end. A claim that comes back full finds the next rows ahead, and needs less.
    static let lag: (idle: Duration, full: Duration) = (.seconds(2), .milliseconds(250))

    /// Claims go on behind this place.
    private(set) var front = ClaimPlace.start
    /// Whether the last claim found less than it might have taken.
    fileprivate(set) var isIdle = false
    /// How many the table has; nil until a claim has told.
    fileprivate var entries: Int64?
    /// Where in the range of keys the next look begins, and where the last one ended.
    private var next: UInt64 = 0
    private var last = UInt64.max
    private var notBefore: ContinuousClock.Instant?

    /// The piece of the key range to look at now; nil if the last look was too recent, or nothing is known of the table.
    ///
    /// Looks take a small part of the time, however large the pieces are and however often claims are made.
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

    /// The piece has been looked at; one that held more than could be taken is looked at again.
    mutating func looked(isExhausted: Bool, _ surroundings: ClaimSurroundings) {
        entries = surroundings.entries
        if isExhausted, !surroundings.isPaused { next = last &+ 1 }
    }

    /// What lay ahead has been claimed, up to a limit.
    ///
    /// - Parameters:
    ///   - last: The last place that was claimed.
    ///   - isFull: Whether the limit ended the claim.
    ///   - surroundings: What the claim told.
    mutating func claimed(upTo last: ClaimPlace?, isFull: Bool, _ surroundings: ClaimSurroundings) {
        entries = surroundings.entries
        guard !surroundings.isPaused else { return }
        isIdle = !isFull
        // Another server's clock, after a failover, may be behind.
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

/// Where claims of an ordered handler look: the devices whose oldest delivery may be claimable.
///
/// A device is looked at when one of its deliveries becomes due (the walk comes by), when this worker has settled the
/// delivery before, and in the looks at the whole. So the devices that only wait cost nothing.
struct DeviceWalk: Sendable {
    /// The greatest number of devices that are remembered; the looks at the whole find the others.
    static let limit = 100_000

    /// The walk over what is due.
    var due = ClaimWalk()
    /// The walk over deliveries from before the handler was ordered.
    var old = ClaimWalk()
    private var queue: [Digest128] = []
    private var first = 0
    private var waiting: Set<Digest128> = []

    /// What is due has been looked through, up to a limit; see ``ClaimWalk/claimed(upTo:isFull:_:)``.
    mutating func found(upTo last: ClaimPlace?, isFull: Bool, _ surroundings: ClaimSurroundings) {
        due.claimed(upTo: last, isFull: isFull, surroundings)
        old.isIdle = due.isIdle
        old.entries = due.entries
    }

    /// Devices to look at.
    mutating func add(_ devices: some Sequence<Digest128>) {
        for device in devices where waiting.count < Self.limit {
            if waiting.insert(device).inserted { queue.append(device) }
        }
    }

    /// The next devices to look at, each once.
    mutating func take(_ count: Int) -> [Digest128] {
        let end = min(queue.count, first + count)
        let devices = Array(queue[first..<end])
        waiting.subtract(devices)
        first = end
        if first == queue.count || first > 4_096 {
            queue.removeFirst(first)
            first = 0
        }
        return devices
    }
}
