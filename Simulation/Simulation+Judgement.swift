import Dispatcher
import SimulatedDatabase
import Telemetry
import Vocabulary

// Judgement every few steps, and at the end.
extension Simulation {
    func look() {
        if scheduler.steps & 63 == 0 { for case let worker? in workers { conserve(worker) } }
        switch phase {
        case .traffic, .over: break
        case .recovering(let end):
            if account.isDone, workers.allSatisfy({ $0 != nil }), areAllHandled { return goOn() }
            guard scheduler.now > end else { return }
            guard account.isDone else {
                let (count, first) = (account.total - account.ackedCount, account.firstUnacked)
                return judge.fail(.resumes, "\(count) messages are not acked in time, of these \(first) first")
            }
            judge.fail(.handled, unhandled)
        case .stopping(let end):
            if workers.allSatisfy({ $0?.hasEnded ?? true }) {
                finish()
            } else if scheduler.now > end {
                judge.fail(.orderly, "a worker has not ended within \(Self.grace)")
            }
        }
    }

    /// The workers stop once the last handler, too, has done everything.
    private func goOn() {
        guard stuck == nil else {
            judge.note("the others have done everything: \(handlers.kinds[stuck ?? 0].name) works again")
            stuck = nil
            handlers.heal(except: nil)
            return recover()
        }
        judge.note("everything is done: the workers stop")
        phase = .stopping(until: scheduler.now &+ Self.grace.nanoseconds)
        for worker in workers { worker?.shutDown() }
    }

    private func finish() {
        phase = .over
        for case let worker? in workers {
            conserve(worker)
            let left = worker.metrics.messages.snapshot().inFlight
            if left != 0 { judge.fail(.conserved, "worker \(worker.process) ends with \(left) copies in flight") }
        }
        let lost = account.lost.filter { !judge.isStored($0) }
        if let missing = (0..<account.created).first(where: { !judge.isStored($0) && !lost.contains($0) }) {
            judge.fail(.ackAfterCommit, "message \(missing) was acked, and is not stored any more")
        }
        let good = (0..<plan.messages).count { !plan.text.isOdd($0) && !lost.contains($0) }
        let (stored, odd) = database.read { ($0.messages.count, $0.quarantine.count) }
        if stored != good { judge.fail(.storedOnce, "\(stored) rows for \(good) messages") }
        let malformed = plan.messages - good - lost.count
        if odd != malformed { judge.fail(.stored, "\(odd) rows for \(malformed) odd messages") }
        if let (delivery, count) = database.read({ $0.effects.first { $0.value != 1 } }) {
            judge.fail(.once, "message \(account.number(of: delivery.message) ?? -1) had its effect \(count) times")
        }
    }

    private func conserve(_ worker: SimulatedWorker) {
        let counts = worker.metrics.messages.snapshot()
        let received = Int(counts.received.reduce(0, +))
        let settled = Int(counts.settled.reduce(0, +))
        guard counts.inFlight >= 0, received == settled + counts.inFlight else {
            return judge.fail(
                .conserved,
                "worker \(worker.process): \(received) received, \(settled) settled, \(counts.inFlight) in flight"
            )
        }
        // What each slot may hold: its stream, two that drain and one that is being closed for them, each with its
        // window and a read of the socket.
        let most = plan.shape.connections * 4 * (121 + 400)
        if counts.inFlight > most {
            judge.fail(.memory, "worker \(worker.process): \(counts.inFlight) copies in flight, of \(most) at most")
        }
        guard scheduler.steps & 1023 == 0 else { return }
        for handler in worker.activity {
            // Fresh and claimed ones, at least two calls' worth each; those that ran and go alone; suspects.
            let least = max(plan.shape.capacity, handler.handler == "immediate" ? 2 * LaneSettings.mostAtOnce : 16)
            // Replayed ones have room of their own.
            let replayed = plan.database.keepsBodies ? plan.shape.capacity : 0
            guard handler.waiting > 2 * least + replayed + 80 + DispatchSettings().suspectsAtOnce else { continue }
            judge.fail(.memory, "\(handler.waiting) messages wait for \(handler.handler), of twice \(least)")
        }
    }

    // MARK: Handlers

    private var areAllHandled: Bool {
        let stuck = stuck.map { handlers.kinds[$0].name }
        for (index, kind) in handlers.kinds.enumerated() where kind.name != stuck {
            let lost = account.lost.count { kind.wants($0, of: plan.text) && !judge.isStored($0) }
            let missing = wantedCounts[index] - lost - doneCount(index)
            guard missing <= 0 || missing == crashedCount(index),
                handlers.again(index).allSatisfy({ isDead($0, index) })
            else { return false }
        }
        // What is done and not settled yet would be done again.
        return database.read { tables in
            tables.blocks.keys.allSatisfy { $0.handler == stuck }
                && tables.queues.allSatisfy { $0.value.rows.isEmpty || $0.key == stuck }
        }
    }

    private func doneCount(_ index: Int) -> Int {
        handlers.kinds[index].isFunction ? database.read { $0.effects.count } : handlers.doneCount(index)
    }

    private func isDone(_ message: Int, by index: Int) -> Bool {
        guard handlers.kinds[index].isFunction else { return handlers.isDone(message, by: index) }
        let delivery = DeliveryKey(handler: handlers.kinds[index].name, message: account.key(message))
        return database.read { $0.effects[delivery] != nil }
    }

    /// The messages that a handler has not done because they died with too many workers, where so many leases were broken.
    private func crashedCount(_ index: Int) -> Int {
        let limit = DispatchSettings().crashLimit
        guard brokenLeases >= limit else { return 0 }
        let name = handlers.kinds[index].name
        let dead = database.read { tables in
            tables.deadLetters.filter { $0.key.handler == name && $0.value.delivery.crashes >= limit }
        }
        return dead.keys.compactMap { account.number(of: $0.message) }.count { !isDone($0, by: index) }
    }

    func isDead(_ message: Int, _ index: Int) -> Bool {
        let delivery = DeliveryKey(handler: handlers.kinds[index].name, message: account.key(message))
        return database.read { $0.deadLetters[delivery] != nil }
    }

    private var unhandled: String {
        for (index, kind) in handlers.kinds.enumerated() where index != stuck {
            let missing = (0..<plan.messages).filter {
                kind.wants($0, of: plan.text) && !isDone($0, by: index)
                    && (judge.isStored($0) || !account.lost.contains($0))
            }
            if let first = missing.first {
                return "\(kind.name) has not done \(missing.count) messages in time, of these \(first) first: \(left)"
            }
        }
        let again = handlers.kinds.indices.map { handlers.again($0).count }
        return "every handler has done every message, and deliveries are left: \(left); of replays \(again)"
    }

    private var left: String {
        let now = database.now
        return database.read { tables in
            let rows = tables.queues.sorted { $0.key < $1.key }.map { handler, queue in
                let first = queue.rows.values.reduce(Int64.max) { min($0, max($1.nextAttemptAt, $1.leaseUntil ?? 0)) }
                return "\(queue.rows.count) of \(handler), the first due in \((first &- now) / 1_000) ms"
            }
            let ends = tables.blocks.values.map { ($0.leaseUntil - now) / 1_000 }
            return (rows + ["blocks whose leases end in \(ends) ms"]).joined(separator: "; ")
        }
    }
}
