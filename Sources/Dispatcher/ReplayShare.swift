import Vocabulary

/// What replayed deliveries get while live ones come: half of the slots, and their turns in claims.
///
/// A live delivery then finds a free slot at once, whatever a call takes. A handler with one slot makes short calls.
struct ReplayShare: Sendable {
    /// How long after a live delivery the next is expected.
    private static let expectation = Duration.seconds(60)
    /// The longest call in the only slot, for which live deliveries wait; at least three times as long as their own
    /// calls take, since the smallest is slow where a commit is.
    private static let longest = Duration.milliseconds(3)
    /// The most turns in claims at once.
    private static let mostTurns = 500

    /// The calls that run.
    var running = 0
    /// Whether the table probably holds more that are due.
    private(set) var hasMore = false
    /// The size of calls in the only slot.
    private var batch: BatchSize
    /// How long a call of live deliveries in the only slot takes, about.
    private var liveCall: Duration?
    private var lastLive: FixedInstant?
    /// The live deliveries claimed, less those that were answered by a replayed one.
    private var liveClaimed = 0

    init(_ settings: LaneSettings) {
        batch = BatchSize(upTo: settings.batch, keepsShort: settings.keepsCallsShort, longest: Self.longest)
    }

    mutating func liveCame(_ now: ContinuousClock.Instant) { lastLive = FixedInstant(now) }

    private func isBesideLive(_ now: ContinuousClock.Instant) -> Bool {
        lastLive.map { $0.wrappedValue + Self.expectation > now } ?? false
    }

    // MARK: Calls

    /// How many calls may run at once in so many slots.
    func most(of slots: Int, now: ContinuousClock.Instant) -> Int { isBesideLive(now) ? slots - slots / 2 : slots }

    /// The size of a call; `batch` is that of others.
    func size(of batch: BatchSize, slots: Int, now: ContinuousClock.Instant) -> Int {
        slots == 1 && isBesideLive(now) ? min(batch.size, self.batch.size) : batch.size
    }

    /// Learns from a call of `count` deliveries, replayed or live.
    mutating func called(
        _ count: Int,
        isReplayed: Bool,
        took: Duration,
        areTogether: Bool,
        slots: Int,
        now: ContinuousClock.Instant
    ) {
        guard slots == 1, isBesideLive(now) else { return }
        if isReplayed {
            batch.called(count, took: took, areTogether: areTogether)
        } else {
            let mean = liveCall ?? took
            liveCall = mean + (took - mean) / 8
            batch.longest = max(Self.longest, mean * 3)
        }
    }

    // MARK: Claims

    /// How many a claim takes though live ones fill it.
    var owed: Int { liveClaimed / (DeliveryQueue.replayTurn - 1) }

    mutating func claimed(_ deliveries: [Delivery], hasMore: Bool?, now: ContinuousClock.Instant) {
        let turn = DeliveryQueue.replayTurn - 1
        let replayed = deliveries.count(where: \.givesWay)
        if replayed < deliveries.count { liveCame(now) }
        if let hasMore { self.hasMore = hasMore }
        let claimed = liveClaimed + deliveries.count - replayed - turn * replayed
        liveClaimed = hasMore == false ? 0 : min(max(0, claimed), turn * Self.mostTurns)
    }
}
