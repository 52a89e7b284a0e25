package import Dispatcher
import Synchronization
package import UpstreamKit
package import Vocabulary

/// The dispatcher's port on a ``SimulatedDatabase``.
///
/// Where the real store walks the table, so that a claim's cost does not depend on its size, this one looks at all of a handler's
/// rows: it finds at once what the real one finds in the end.
package final class SimulatedDeliveryStore: DeliveryStore {
    let database: SimulatedDatabase
    let worker: String
    private let registered = Mutex<(token: Int64, handlers: [HandlerRegistration])?>(nil)
    private let session = Mutex<SimulatedDatabase.Session?>(nil)

    /// The dispatcher's tables for one worker, whose name is also its owner's in leases.
    package init(_ database: SimulatedDatabase, worker: String) { (self.database, self.worker) = (database, worker) }

    /// Ends the registration; other workers notice the missing heartbeat if that fails.
    package func close() async {
        guard let own = registered.withLock({ $0.take() }) else { return }
        _ = try? await run(.withdraw) { state in state.withdraw(own.token) }
    }

    // MARK: Handlers

    package func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 {
        let previous = registered.withLock { $0?.token } ?? 0
        let token = try await run(.register) { state in
            let token = state.nextToken()
            state.register(previous: previous, token: token, worker: self.worker, handlers)
            return token
        }
        registered.withLock { $0 = (token, handlers) }
        return token
    }

    package func controls(_ handlers: [String]) async throws(StoreError) -> [HandlerControl] {
        try await run(.controls) { state in
            let (now, rows) = (state.now, state.tables.handlers)
            return Set(handlers).sorted().compactMap { name in
                guard let row = rows[name] else { return nil }
                var control = HandlerControl(handler: name)
                control.isPaused = row.isPaused
                control.hold = row.heldUntil.flatMap { $0 > now ? .microseconds($0 - now) : nil }
                control.resumption = row.resumedAt ?? 0
                if let isOpen = row.isCircuitOpen, let changedAt = row.circuitChangedAt,
                    state.runs(name, row.circuitToken)
                {
                    control.circuit = CircuitChange(isOpen: isOpen, id: changedAt)
                }
                return control
            }
        }
    }

    package func share(_ request: ShareRequest) async throws(StoreError) -> Int? {
        guard let token = registered.withLock({ $0?.token }) else { return nil }
        return try await run(.share) { state in state.share(request, of: token) }
    }

    package func hold(_ handler: String, _ hold: HandlerHold) async throws(StoreError) {
        try await run(.hold) { state throws(StoreError) in
            if state.isLocked(.handler(handler)) { throw .raised("55P03") }
            let end = state.now + hold.remaining.microseconds
            state.update(handler) { row in
                guard row.heldUntil.map({ $0 < end }) ?? true else { return }
                (row.heldUntil, row.holdReason) = (end, hold.reason)
            }
        }
    }

    package func changeCircuit(_ handler: String, isOpen: Bool) async throws(StoreError) -> CircuitChange? {
        guard let token = registered.withLock({ $0?.token }) else { return nil }
        return try await run(.hold) { state throws(StoreError) in
            if state.isLocked(.handler(handler)) { throw .raised("55P03") }
            guard state.tables.handlers[handler] != nil else { return nil }
            let changedAt = state.now
            state.update(handler) {
                ($0.isCircuitOpen, $0.circuitChangedAt, $0.circuitToken) = (isOpen, changedAt, token)
            }
            return CircuitChange(isOpen: isOpen, id: changedAt)
        }
    }

    package func pause(_ handler: String, reason: String) async throws(StoreError) {
        try await run(.pause) { state in
            state.update(handler) { ($0.isPaused, $0.pauseReason) = (true, reason) }
        }
    }

    package func unclaimed() async throws(StoreError) -> [String] {
        try await run(.unclaimed) { state in
            let tables = state.tables
            return tables.handlers.keys.sorted().filter { name in
                guard let row = tables.handlers[name], row.seenAt <= state.now - 120_000_000 else { return false }
                return tables.subscriptions.keys.contains { $0.handler == name }
                    || tables.queues[name]?.rows.isEmpty == false
            }
        }
    }

    package func keep(_ handlers: [String]) async throws(StoreError) {
        try await run(.keep) { state in state.see(handlers) }
        if let own = registered.withLock(\.self) {
            let known = try await run(.keep) { state in state.keep(own.token) }
            if known < own.handlers.count {
                // Silent for so long that another worker has removed the registration.
                try await run(.register) { state in
                    state.register(previous: own.token, token: own.token, worker: self.worker, own.handlers)
                }
            }
        }
    }

    package func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] {
        try await run(.backlog) { state in handlers.map { state.backlog($0) } }
    }

    // MARK: Leases

    package func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        try await run(.unpack) { state in _ = state.unpackExpired() }
        let deadline = database.clock.now() + request.lease
        return try await run(.claim) { state in
            let rows = state.claim(request)
            return rows.map { key, row in
                Delivery(
                    content: row.body.upstream.map { .stored($0) } ?? .missing,
                    messageKey: key,
                    attempts: row.attempts,
                    crashes: row.crashes,
                    replayID: row.isReplayed ? "replay" : nil,
                    lease: Lease(token: row.token, deadline: deadline)
                )
            }
        }
    }

    package func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference> {
        try await run(.extend) { state in
            var held: Set<LeaseReference> = []
            for lease in leases {
                guard var row = state.held(lease.messageKey, lease.token, of: handler) else { continue }
                row.leaseUntil = state.now + duration.microseconds
                state.change(.delivery(DeliveryKey(handler: handler, message: lease.messageKey), row))
                held.insert(lease)
            }
            return held
        }
    }

    // MARK: Settlements

    package func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int {
        var held = 0
        // One transaction for each outcome, in the order of the real store.
        for place in 0..<5 {
            let part = settlements.filter { $0.outcome.place == place }
            guard !part.isEmpty else { continue }
            held += try await run(.settle, waitsForDisk: place > 0) { state in
                state.settle(part, of: handler)
            }
        }
        return held
    }

    package func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        var held = 0
        for token in Set(blocks.map(\.token)).sorted() {
            let own = blocks.filter { $0.token == token }
            let complete = own.filter(\.isComplete)
            var rest = own.filter { !$0.isComplete }
            if !complete.isEmpty {
                let gone = try await run(.settleBlocks, waitsForDisk: false) { state in
                    state.complete(complete, of: handler)
                }
                for block in complete {
                    if gone.contains(block.number) { held += block.count } else { rest.append(block) }
                }
            }
            guard !rest.isEmpty else { continue }
            let left = rest
            let unpacked = try await run(.settleBlocks) { state in
                state.unpack(left, token: token, of: handler)
            }
            held += unpacked
            guard unpacked < left.reduce(0, { $0 + $1.done.count }) else { continue }
            // They were rows from the start, or another worker has unpacked them.
            let done = left.flatMap(\.done).map { Settlement(messageKey: $0, token: token, outcome: .done) }
            held += try await run(.settle, waitsForDisk: false) { state in
                state.settle(done, of: handler)
            }
        }
        return held
    }

    package func listen(wake: @Sendable () -> Void) async throws(StoreError) {
        try await database.listen(worker, in: database.connect(worker), wake: wake)
    }

    private func run<T: Sendable>(
        _ statement: Statement,
        waitsForDisk: Bool = true,
        _ body: @Sendable (inout ServerState) throws(StoreError) -> T
    ) async throws(StoreError) -> T {
        let session = try await connected()
        do throws(StoreError) {
            return try await database.run(statement, of: worker, in: session, waitsForDisk: waitsForDisk, body)
        } catch {
            if error.endsSession { self.session.withLock { $0 = nil } }
            throw error
        }
    }

    /// A session, perhaps a dead one, which is found out by using it.
    ///
    /// Those of the real store's pool live and die together here.
    private func connected() async throws(StoreError) -> SimulatedDatabase.Session {
        if let session = session.withLock(\.self) { return session }
        let session = try await database.connect(worker)
        self.session.withLock { $0 = session }
        return session
    }
}

// SQL functions, as `FunctionCaller` calls them.
extension SimulatedDeliveryStore {
    /// Calls a function with messages: its effects, which are only counted, and the ends of their deliveries commit together.
    ///
    /// `raises` gives the SQLSTATE with which it refuses some of them, if it does.
    package func call(
        _ handler: String,
        _ leases: [LeaseReference],
        raises: @Sendable ([Digest128]) -> String? = { _ in nil }
    ) async -> CallEnd {
        var plan = CallPlan(count: leases.count)
        while let places = plan.next() {
            do throws(StoreError) {
                plan.ended(try await attempt(handler, leases, places, raises))
            } catch {
                guard !plan.hasAny else {
                    plan.ended(.stopped)
                    continue
                }
                return Task.isCancelled
                    ? CallEnd(leases.map { _ in .verdict(.cancelled) })
                    : .failed(.unavailable(after: nil, Self.failure(of: error)), of: leases.count)
            }
        }
        return plan.end
    }

    /// One transaction; an error means that it could not begin.
    private func attempt(
        _ handler: String,
        _ leases: [LeaseReference],
        _ places: [Int],
        _ raises: @Sendable ([Digest128]) -> String?
    ) async throws(StoreError) -> CallPlan.Outcome {
        let session = try await connected()
        let hasBegun = database.isAlive(session, of: worker)
        do throws(StoreError) {
            let held = try await run(.call) { state throws(StoreError) in
                let rows = state.tables.queues[handler]?.rows ?? [:]
                let held = places.filter { rows[leases[$0].messageKey]?.token == leases[$0].token }
                guard held.count == places.count else { return held }
                if let sqlState = raises(places.map { leases[$0].messageKey }) { throw .raised(sqlState) }
                for place in places { state.complete(leases[place].messageKey, of: handler) }
                return held
            }
            if held.count == places.count { return .ended(places.map { _ in .settled }) }
            return places.count == 1 ? .ended([.lost]) : .held(held)
        } catch {
            guard hasBegun, !Task.isCancelled, error.failureClass != .readOnly else { throw error }
            guard places.count == 1 else { return error.endsSession ? .stopped : .failed }
            let failure = Self.failure(of: error)
            return .ended([.verdict(error.endsSession ? .interrupted(failure) : .retry(after: nil, failure))])
        }
    }

    private static func failure(of error: StoreError) -> HandlerFailure {
        HandlerFailure(group: "sql \(error.sqlState ?? "no SQLSTATE")", detail: error.message)
    }
}

extension ServerState {
    /// Has a function's effect, and deletes the delivery.
    fileprivate mutating func complete(_ message: Digest128, of handler: String) {
        let key = DeliveryKey(handler: handler, message: message)
        change(.effect(key, (tables.effects[key] ?? 0) + 1))
        change(.delivery(key, nil))
    }
}

extension Settlement.Outcome {
    /// Its place in the order in which outcomes are written.
    fileprivate var place: Int {
        switch self {
        case .done: 0
        case .retry: 1
        case .dead: 2
        case .release(_, let failure): failure == nil ? 3 : 4
        }
    }
}
