import Dispatcher
import Ingest
import Vocabulary

/// Stands in for the database until there is a model of it: a ledger, commits that take time, and their faults.
final class StandInStore {
    private let scheduler: Scheduler
    private var random: SplitMix
    private var ledger: [Digest128: (fingerprint: Digest128, receivedAt: Int64)] = [:]
    private var isStored: [Bool] = []
    private var downUntil: UInt64 = 0
    private var stalledUntil: UInt64 = 0
    private var unknownCommits = 0
    private let latency: (least: Duration, most: Duration)
    /// After this long our own time-out ends a commit.
    private static let timeout = Duration.seconds(10)

    init(_ scheduler: Scheduler, seed: UInt64) {
        self.scheduler = scheduler
        random = SplitMix(seed: seed, for: "store")
        let most = random.time(.microseconds(500), .milliseconds(30))
        latency = (most / 10, most)
    }

    var stored: Int { ledger.count }

    func holds(_ message: Int) -> Bool { message < isStored.count && isStored[message] }

    // MARK: Faults

    func fail(for time: Duration) { downUntil = scheduler.now &+ time.nanoseconds }
    func stall(for time: Duration) { stalledUntil = scheduler.now &+ time.nanoseconds }
    func loseReplies(_ count: Int) { unknownCommits += count }
    func heal() { (downUntil, stalledUntil, unknownCommits) = (0, 0, 0) }

    // MARK: Commits

    fileprivate typealias Reply = Result<[StoreOutcome], StoreError>

    fileprivate func commit(_ batch: [IncomingMessage], of process: Int, _ reply: @escaping (Reply) -> Void) {
        let start = scheduler.now
        let travel = random.time(latency.least, latency.most)
        scheduler.after(travel, as: Scheduler.world) { [self] in
            if scheduler.now < downUntil { return answer(.failure(Self.unavailable), process, reply) }
            let isUnknown = unknownCommits > 0
            if isUnknown { unknownCommits -= 1 }
            let (end, limit) = (max(stalledUntil, scheduler.now), start &+ Self.timeout.nanoseconds)
            let isLate = end > limit
            scheduler.at(min(end, limit), as: Scheduler.world) { [self] in
                // What our cancel finds half done is applied, or not.
                guard !isUnknown, !isLate else {
                    if random.chance(0.5) { _ = apply(batch) }
                    return answer(.failure(isLate ? Self.timedOut : Self.unavailable), process, reply)
                }
                answer(.success(apply(batch)), process, reply)
            }
        }
    }

    private func answer(_ result: Reply, _ process: Int, _ reply: @escaping (Reply) -> Void) {
        scheduler.after(random.time(latency.least, latency.most), as: process) { reply(result) }
    }

    private func apply(_ batch: [IncomingMessage]) -> [StoreOutcome] {
        scheduler.note(UInt64(batch.count))
        return batch.map { message in
            if let known = ledger[message.messageKey] {
                // Our own earlier commit, whose reply was lost.
                if known.receivedAt == message.receivedAt { return .stored }
                return known.fingerprint == message.fingerprint ? .duplicate : .conflict
            }
            ledger[message.messageKey] = (message.fingerprint, message.receivedAt)
            if let number = message.number {
                while isStored.count <= number { isStored.append(false) }
                isStored[number] = true
            }
            return .stored
        }
    }

    private static let unavailable = StoreError(
        kind: .unavailable,
        sqlState: "57P01",
        message: "terminating connection",
        failureClass: .connection
    )
    private static let timedOut = StoreError(
        kind: .timedOut,
        sqlState: "57014",
        message: "canceling statement",
        failureClass: .timeout
    )
}

/// A writer of one process.
// Sendable: on the simulation's one thread.
final class StandInWriter: MessageWriter, @unchecked Sendable {
    private let store: StandInStore
    private let process: Int

    init(_ store: StandInStore, process: Int) { (self.store, self.process) = (store, process) }

    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        let reply: Result<[StoreOutcome], StoreError> = await withUnsafeContinuation { continuation in
            store.commit(batch, of: process) { continuation.resume(returning: $0) }
        }
        return try reply.get()
    }
}

extension IncomingMessage {
    /// The number that a server here gave it.
    var number: Int? {
        messageID.flatMap { MessageText.number(UnsafeBufferPointer(rebasing: bytes.unsafeBytes[$0.range])) }
    }
}
