import Synchronization

/// A token bucket per key.
///
/// Bounded: with too many keys, those that have used nothing lately are forgotten; if that is not enough, all new keys
/// share one bucket, so that many addresses can neither fill the memory nor escape the limit.
final class RateLimiter: Sendable {
    private struct Bucket {
        var left: Double
        var at: ContinuousClock.Instant
    }

    /// The most keys with a bucket of their own.
    static let keyLimit = 4_096
    private static let shared = "others"

    private let burst: Double
    private let perSecond: Double
    private let now: @Sendable () -> ContinuousClock.Instant
    private let buckets = Mutex<[String: Bucket]>([:])

    init(burst: Int, perSecond: Double, now: @escaping @Sendable () -> ContinuousClock.Instant) {
        self.burst = Double(burst)
        self.perSecond = perSecond
        self.now = now
    }

    /// Uses one token; returns how long to wait if there was none.
    @discardableResult
    func use(_ key: String) -> Duration? {
        let time = now()
        return buckets.withLock { buckets in
            var key = key
            if buckets[key] == nil, buckets.count >= Self.keyLimit {
                buckets = buckets.filter { refilled($0.value, time).left < burst }
                if buckets.count >= Self.keyLimit { key = Self.shared }
            }
            var bucket = refilled(buckets[key], time)
            defer { buckets[key] = bucket }
            guard bucket.left >= 1 else { return .seconds((1 - bucket.left) / perSecond) }
            bucket.left -= 1
            return nil
        }
    }

    var count: Int { buckets.withLock { $0.count } }

    private func refilled(_ bucket: Bucket?, _ time: ContinuousClock.Instant) -> Bucket {
        guard let bucket else { return Bucket(left: burst, at: time) }
        let gained = ((time - bucket.at) / .seconds(1)) * perSecond
        return Bucket(left: min(burst, bucket.left + max(0, gained)), at: time)
    }
}
