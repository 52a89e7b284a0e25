import Dispatcher
import Ingest
import SimulatedDatabase
import Synchronization
import UpstreamKit
import Vocabulary

/// What troubles the model's statements.
private final class CurrentTrouble: Sendable {
    let trouble = Mutex<Trouble?>(nil)
}

/// The model on virtual time.
final class ModelSite: Site {
    let time: VirtualTime
    let database: SimulatedDatabase
    let start: Int64
    private let current = CurrentTrouble()
    /// The sessions of functions, by worker.
    private let callers = Mutex<[String: SimulatedDeliveryStore]>([:])

    init(_ time: VirtualTime, _ replication: SimulatedDatabase.Replication = .none) {
        self.time = time
        var options = SimulatedDatabase.Options()
        options.replication = replication
        options.lockTimeout = .seconds(2)
        options.passes = ModelFilter.passes
        database = SimulatedDatabase(clock: time.source, options)
        start = database.now
        database.setFaults { [current] statement, worker in
            if worker == "holder", statement == .store { return StatementFault(delay: .seconds(3_600)) }
            if worker == "short holder", statement == .store { return StatementFault(delay: .milliseconds(100)) }
            guard worker == "writer" else { return nil }
            switch current.trouble.withLock(\.self) {
            case .commitsFail(let state):
                return [.store, .conflicts, .quarantine].contains(statement)
                    ? StatementFault(.raised(state)) : nil
            case .tooSlow: return StatementFault(.timedOut(isApplied: false))
            case .answerLost:
                current.trouble.withLock { $0 = nil }
                return StatementFault(.lost(isApplied: true))
            default: return nil
            }
        }
    }

    func writer(clockAhead: Duration?) -> any MessageWriter {
        let stamps = clockAhead.map { ahead in
            let moment: @Sendable () -> ClockReading.Moment = { [time, start, origin = time.now] in
                let passed = origin.duration(to: time.now)
                let monotonic = MonotonicTime(nanoseconds: 1_000_000_000 + passed.nanoseconds)
                let wall = Timestamp(microseconds: start + passed.microseconds + ahead.microseconds)
                return ClockReading.Moment(wall: wall, monotonic: monotonic)
            }
            return SimulatedWriter.Stamps(DatabaseClock(moment(), monotonic: { moment().monotonic }), moment: moment)
        }
        return SimulatedWriter(database, worker: "writer", senders: ["1234567890"], stamps: stamps)
    }

    func deliveries(_ worker: String) -> any DeliveryStore {
        SimulatedDeliveryStore(database, worker: worker)
    }

    func close(_ store: any DeliveryStore) async { await (store as? SimulatedDeliveryStore)?.close() }

    func call(_ worker: String, _ delivery: Delivery) async -> AttemptEnd {
        let caller = callers.withLock { callers in
            let caller = callers[worker] ?? SimulatedDeliveryStore(database, worker: worker)
            callers[worker] = caller
            return caller
        }
        let lease = LeaseReference(messageKey: delivery.messageKey, token: delivery.lease.token)
        return await caller.call("orders", [lease]).ends[0]
    }

    func pass(_ duration: Duration) async throws { time.advance(by: duration) }

    func happen(_ trouble: Trouble) async throws {
        switch trouble {
        case .rowsRefused(let state):
            database.setRefusal { $0.messageKey.low >= 900 ? state : nil }
        case .commitsFail, .answerLost, .tooSlow: current.trouble.withLock { $0 = trouble }
        case .commitsSucceed, .fastAgain: current.trouble.withLock { $0 = nil }
        case .readOnly: database.setReadOnly(true)
        case .writable: database.setReadOnly(false)
        case .sessionsEnd: database.disconnect("writer")
        case .registrationsLost: database.loseRegistrations()
        case .paused: database.pause("orders", reason: "operator")
        case .resumed: database.resume("orders")
        }
    }

    func holding(
        _ message: IncomingMessage,
        _ end: HoldEnd,
        _ body: @escaping @Sendable () async throws -> [String]
    ) async throws -> [String] {
        let begun = time.now
        // The clock stands until the other one waits.
        time.stand(until: 2)
        let holder = SimulatedWriter(
            database,
            worker: end == .commit ? "short holder" : "holder",
            senders: ["1234567890"]
        )
        async let held: [StoreOutcome]? = try? holder.commit([message])
        while database.openTransactions == 0 { await Task.yield() }
        async let text = body()
        if end == .rollback {
            let limit = ContinuousClock.now + .seconds(10)
            while time.now == begun, ContinuousClock.now < limit { await Task.yield() }
            database.disconnect("holder")
        }
        let result = try await text
        if end == .never { database.disconnect("holder") }
        if end != .commit { time.advance(by: .seconds(3_600)) }
        _ = await held
        return result
    }

    // MARK: Rows

    func rows(_ table: Table) async throws -> [String] {
        let (now, start) = (database.now, start)
        return database.read { tables in
            /// The seconds from now, to the nearest ten: a real server is read a moment later.
            func distance(_ time: Int64?) -> String {
                time.map { "\(Int(((Double($0 - now) / 1e7).rounded()) * 10))" } ?? "-"
            }
            func numbered(_ tokens: [Int64]) -> [Int64: Int] {
                Dictionary(uniqueKeysWithValues: Set(tokens).sorted().enumerated().map { ($1, $0 + 1) })
            }
            let rows: [String] =
                switch table {
                case .messages:
                    tables.messages.map {
                        "\($0.low) \($1.fingerprint.low) \($1.receivedAt - start) \($1.deviceKey.low)"
                    }
                case .conflicts:
                    tables.conflicts.map {
                        "\($0.message.low) \($0.fingerprint.low) \($1.timesSeen) \($1.receivedAt - start) "
                            + "\($1.lastSeenAt - start) \($1.text)"
                    }
                case .quarantine:
                    tables.quarantine.map {
                        "\($0.senderID) \($1.reason) \($1.timesSeen) \($1.receivedAt - start) \($1.lastSeenAt - start)"
                    }
                case .handlers:
                    tables.handlers.map {
                        "\($0) \($1.isPaused) \($1.pauseReason ?? "-") \(distance($1.heldUntil)) \($1.holdReason ?? "-") "
                            + "\($1.resumedAt == nil ? "-" : "resumed") \(distance($1.seenAt))"
                    }
                case .registrations:
                    tables.registrations.map { key, row in
                        "\(key.handler) \(row.worker) \(row.categories.joined(separator: ",")) \(row.isByDevice) "
                            + "\(distance(row.aliveSince)) \(distance(row.heartbeatAt)) "
                            + "\(numbered(tables.registrations.keys.map(\.token))[key.token] ?? 0)"
                    }
                case .subscriptions:
                    tables.subscriptions.map {
                        "\($0.handler) \($0.category) \($1.isByDevice) \($1.filters.map { "\($0.count)" } ?? "-")"
                    }
                case .deliveries:
                    tables.queues.flatMap { handler, queue in
                        let tokens = numbered(tables.queues.values.flatMap { $0.rows.values.map(\.token) })
                        return queue.rows.map { key, row in
                            "\(handler) \(key.low) \(row.receivedAt - start) \(row.attempts) \(row.crashes) "
                                + "\(row.lastError ?? "-") \(row.owner ?? "-") \(tokens[row.token] ?? 0) "
                                + "\(distance(row.leaseUntil)) \(distance(row.nextAttemptAt)) "
                                + "\(row.device.map { "\($0.low)" } ?? "-")"
                        }
                    }
                case .blocks:
                    tables.blocks.map { key, row in
                        let keys = row.bodies.map(\.message.messageKey.low).sorted().map { "\($0)" }.joined(
                            separator: ","
                        )
                        return "\(key.handler) \(key.number) \(row.owner) \(distance(row.leaseUntil)) \(keys)"
                    }
                case .dead_letters:
                    tables.deadLetters.map { key, row in
                        "\(key.handler) \(key.message.low) \(row.delivery.attempts) \(row.delivery.crashes) "
                            + "\(row.failure) \(row.group) \(distance(row.diedAt))"
                    }
                case .effects: tables.effects.map { "\($0.message.low) \($1)" }
                }
            return rows.sorted()
        }
    }
}

extension OddRow {
    fileprivate var text: String { body.upstream?.data.map { String(decoding: $0, as: UTF8.self) } ?? "-" }

    fileprivate var reason: String { body.message.quarantine?.rawValue ?? "-" }
}
