import Dispatcher
import SimulatedDatabase
import Telemetry
import Vocabulary

/// A run of a plan: workers, servers, network and database on one thread, faults at their times, judged after each step.
final class Simulation {
    struct Report {
        var failure: Judge.Failure?
        /// A hash over every step, delivery, ack and commit.
        var digest: UInt64
        var steps: UInt64
        /// Virtual nanoseconds.
        var time: UInt64
        var copies: Int
        var acks: Int
        var faults: Int
        var lines: [String]
    }

    /// After the last fault everything is acked and handled within this time and a lease.
    ///
    /// The longest pause before a connection opens is a minute; before it stands the time in which a worker notices that
    /// a connection is dead (45 s with the default keepalive), and that a server does not answer (10 s). What a dead
    /// worker held is taken over when its lease ends.
    static let recovery = Duration.seconds(120)
    /// `shutdown.grace`.
    static let grace = Duration.seconds(25)

    private enum Phase {
        case traffic
        case recovering(until: UInt64)
        case stopping(until: UInt64)
        case over
    }

    private let plan: Plan
    private let scheduler: Scheduler
    private let judge: Judge
    private let account: Account
    private let network: Network
    private let database: SimulatedDatabase
    private let statements: DatabaseFaults
    private let handlers: Handlers
    private var workers: [SimulatedWorker?]
    /// How far each machine's wall clock is off, in microseconds.
    private var clockOffsets: [Int64]
    private var databaseOffset = Duration.zero
    private var random: SplitMix
    private var phase = Phase.traffic
    private var struck = 0
    private var brokenLeases = 0
    private var frozen: Set<Int> = []
    /// How many messages each of the handlers has to do.
    private let wantedCounts: [Int]

    init(_ plan: Plan) {
        self.plan = plan
        scheduler = Scheduler(seed: plan.seed)
        judge = Judge(scheduler, trace: Trace(isOn: plan.isTraced))
        account = Account(scheduler, seed: plan.seed, judge: judge, total: plan.messages, text: plan.text)
        network = Network(scheduler, seed: plan.seed, account: account)
        database = SimulatedDatabase(
            clock: scheduler.timeSource(RandomSource(seed: plan.seed, for: "database")),
            plan.database
        )
        if plan.text.refusedEvery > 0 {
            database.setRefusal { message in
                let number = message.messageID.flatMap { id in
                    MessageText.number(UnsafeBufferPointer(rebasing: message.bytes.unsafeBytes[id.range]))
                }
                return number.map(plan.text.isRefused) == true ? "22P05" : nil
            }
        }
        statements = DatabaseFaults(scheduler, seed: plan.seed, database)
        handlers = Handlers(scheduler, seed: plan.seed, judge: judge, account: account)
        workers = Array(repeating: nil, count: plan.workers)
        wantedCounts = Handlers.kinds.map { kind in (0..<plan.messages).count { kind.wants($0, of: plan.text) } }
        random = SplitMix(seed: plan.seed, for: "simulation")
        // A machine's clock is a little off.
        clockOffsets = []
        for _ in workers { clockOffsets.append(Int64(random.below(2_000_000)) - 1_000_000) }
        judge.isStored = { [account, database] number in
            if plan.text.isOdd(number) {
                let digest = plan.text.payloadDigest(number)
                return database.read { $0.quarantine.keys.contains { $0.digest == digest } }
            }
            let key = account.keys[number]
            return database.read { $0.messages[key] != nil }
        }
    }

    func run() -> Report {
        for slot in workers.indices { start(slot) }
        for planned in plan.faults {
            scheduler.at(planned.at, as: Scheduler.world) { [self] in strike(planned.fault) }
        }
        scheduler.at(plan.horizon, as: Scheduler.world) { [self] in heal() }
        arrive()
        while judge.failure == nil, !isOver {
            guard scheduler.step() else {
                judge.fail(.resumes, "nothing is left to do, and \(account.total - account.ackedCount) are not acked")
                break
            }
            look()
        }
        if judge.failure != nil { Scheduler.keep(self) }
        return Report(
            failure: judge.failure,
            digest: scheduler.digest,
            steps: scheduler.steps,
            time: scheduler.now,
            copies: judge.copies,
            acks: judge.acks,
            faults: struck,
            lines: judge.trace.lines
        )
    }

    private var isOver: Bool { if case .over = phase { true } else { false } }

    // MARK: Traffic

    /// New messages, in bursts.
    private func arrive() {
        guard !account.hasAllArrived else { return }
        let burst = 1 + random.below(max(1, min(200, Int(plan.rate))))
        let pause = Double(burst) / plan.rate * 2 * random.fraction()
        scheduler.after(.nanoseconds(Int64(pause * 1e9)), as: Scheduler.world) { [self] in
            account.arrive(burst)
            arrive()
        }
    }

    private func start(_ slot: Int) {
        let process = scheduler.addProcess()
        let simulation = Unchecked(self)
        let worker = SimulatedWorker(
            scheduler,
            process: process,
            seed: plan.seed,
            shape: plan.shape,
            wall: { simulation.value.wallTime(slot) },
            database: database,
            network: network,
            handlers: handlers
        )
        workers[slot] = worker
        judge.note("worker \(process) starts")
        worker.start()
    }

    private func wallTime(_ slot: Int) -> Timestamp {
        Timestamp(microseconds: plan.database.epoch + Int64(scheduler.now / 1_000) + clockOffsets[slot])
    }

    // MARK: Faults

    private func strike(_ fault: Fault) {
        guard case .traffic = phase else { return }
        struck += 1
        if fault.breaksLeases(of: plan.shape.lease) { brokenLeases += 1 }
        judge.note("fault: \(fault)")
        switch fault {
        case .cut(let draw): account.stream(draw)?.link?.cut()
        case .halfOpen(let draw, let patience):
            account.stream(draw)?.link?.swallow(serverGivesUpAfter: patience)
        case .trickle(let draw, let time):
            guard let link = account.stream(draw)?.link else { return }
            during(time) { link.weather.piece = $0 ? 40 : nil }
        case .refuseConnections(let time): network.refuse(for: time)
        case .ignoreConnections(let time): network.ignore(for: time)
        case .close(let draw): account.stream(draw)?.close()
        case .drain(let draw, let patience): account.stream(draw)?.drain(for: patience)
        case .repeatMessages(let count): account.repeatSome(count)
        case .flood(let time): during(time) { [account] in account.window = $0 ? 2_000 : Account.usualWindow }
        case .databaseDown(let time): during(time) { [database] in $0 ? database.crash() : database.restart() }
        case .databaseStalls(let time): statements.stall(for: time)
        case .loseReplies(let count, let ofWriters): statements.loseReplies(count, ofWriters: ofWriters)
        case .raiseErrors(let count, let ofWriters): statements.raise(count, ofWriters: ofWriters)
        case .readOnly(let time): during(time) { [database] in database.setReadOnly($0) }
        case .diskFull(let time): during(time) { [database] in database.setDiskFull($0) }
        case .standbyAway(let time): during(time) { [database] in database.setStandby(isConnected: !$0) }
        case .failOver(let more): database.failOver(keeping: Int64(more))
        case .unconfirmed(let time, let takesOver):
            guard plan.database.replication.isSynchronous else { return }
            database.setStandby(isConnected: false)
            statements.breakOffWaits(for: time)
            scheduler.after(time, as: Scheduler.world) { [database] in
                if takesOver { database.failOver() } else { database.setStandby(isConnected: true) }
            }
        case .databaseClock(let ahead):
            databaseOffset += ahead
            database.setClock(offset: databaseOffset)
        case .workerClock(let draw, let offset):
            clockOffsets[Int(draw % UInt64(workers.count))] += offset.microseconds
        case .handlerFails(let draw, let time): handlers.fail(draw, for: time)
        case .handlerHangs(let draw, let time): handlers.hang(draw, for: time)
        case .kill(let draw, let pause): kill(Int(draw % UInt64(workers.count)), restart: pause)
        case .freeze(let draw, let time): freeze(Int(draw % UInt64(workers.count)), for: time)
        case .restart(let draw): restart(Int(draw % UInt64(workers.count)))
        }
    }

    /// Does something now, and undoes it after a time.
    private func during(_ time: Duration, _ change: @escaping (_ isOn: Bool) -> Void) {
        change(true)
        scheduler.after(time, as: Scheduler.world) { change(false) }
    }

    private func kill(_ slot: Int, restart pause: Duration) {
        guard let worker = workers[slot] else { return }
        scheduler.kill(worker.process)
        Scheduler.keep(worker)
        network.died(worker.process)
        database.disconnect(worker.name)
        workers[slot] = nil
        scheduler.after(pause, as: Scheduler.world) { [self] in start(slot) }
    }

    private func freeze(_ slot: Int, for time: Duration) {
        guard let worker = workers[slot], frozen.insert(worker.process).inserted else { return }
        scheduler.freeze(worker.process)
        scheduler.after(time, as: Scheduler.world) { [self] in thaw(worker.process) }
    }

    private func thaw(_ process: Int) {
        if frozen.remove(process) != nil { scheduler.thaw(process) }
    }

    /// Stops a worker in order; another one starts in its place once it has ended.
    private func restart(_ slot: Int) {
        guard let worker = workers[slot] else { return }
        worker.shutDown()
        awaitEnd(of: worker, slot)
    }

    private func awaitEnd(of worker: SimulatedWorker, _ slot: Int) {
        scheduler.after(.milliseconds(100), as: Scheduler.world) { [self] in
            // Killed meanwhile: another one takes its place anyway.
            guard workers[slot] === worker else { return }
            guard worker.hasEnded else { return awaitEnd(of: worker, slot) }
            // Not if all stop meanwhile.
            if case .stopping = phase { return }
            start(slot)
        }
    }

    private func heal() {
        judge.note("the last fault has ended")
        account.window = Account.usualWindow
        network.heal()
        statements.heal()
        handlers.heal()
        database.restart()
        database.setReadOnly(false)
        database.setDiskFull(false)
        database.setStandby(isConnected: true)
        for process in frozen.sorted() { thaw(process) }
        phase = .recovering(until: scheduler.now &+ (Self.recovery + plan.shape.lease).nanoseconds)
    }

    // MARK: Judgement after each step

    private func look() {
        if scheduler.steps & 63 == 0 { for worker in workers { if let worker { conserve(worker) } } }
        switch phase {
        case .traffic, .over: break
        case .recovering(let end):
            if account.isDone, !workers.contains(where: { $0 == nil }), areAllHandled { return stop() }
            guard scheduler.now > end else { return }
            if let first = account.firstUnacked {
                let count = account.total - account.ackedCount
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

    // MARK: Handlers

    private var areAllHandled: Bool {
        for (index, kind) in Handlers.kinds.enumerated() {
            let missing = wantedCounts[index] - handlers.doneCount(index)
            guard missing <= 0 || missing == crashedCount(index, kind) else { return false }
        }
        // What is done and not settled yet would be done again.
        return database.read { $0.blocks.isEmpty && $0.queues.values.allSatisfy(\.rows.isEmpty) }
    }

    /// The messages that a handler has not done because they died with too many workers, where so many leases were broken.
    private func crashedCount(_ index: Int, _ kind: Handlers.Kind) -> Int {
        let limit = DispatchSettings().crashLimit
        guard brokenLeases >= limit else { return 0 }
        let name = kind.name
        let dead = database.read { tables in
            tables.deadLetters.filter { $0.key.handler == name && $0.value.delivery.crashes >= limit }
        }
        return dead.keys.map(\.message).compactMap(account.number).count { !handlers.isDone($0, by: index) }
    }

    /// What is missing, for a report.
    private var unhandled: String {
        for (index, kind) in Handlers.kinds.enumerated() {
            let missing = (0..<plan.messages)
                .filter { kind.wants($0, of: plan.text) && !handlers.isDone($0, by: index) }
            if let first = missing.first {
                return
                    "handler \(kind.name) has not done \(missing.count) messages in time, of these \(first) first: \(left)"
            }
        }
        return "every handler has done every message, and deliveries are left: \(left)"
    }

    /// The deliveries that are left, for a report.
    private var left: String {
        let now = database.now
        return database.read { tables in
            let queues = tables.queues.filter { !$0.value.rows.isEmpty }.sorted { $0.key < $1.key }
            let rows = queues.map { handler, queue in
                let first = queue.rows.values.reduce(Int64.max) { min($0, max($1.nextAttemptAt, $1.leaseUntil ?? 0)) }
                return "\(queue.rows.count) of \(handler), the first due in \((first - now) / 1_000) ms"
            }
            let ends = tables.blocks.values.map { ($0.leaseUntil - now) / 1_000 }
            return (rows + (ends.isEmpty ? [] : ["blocks whose leases end in \(ends) ms"])).joined(separator: "; ")
        }
    }

    private func stop() {
        judge.note("everything is acked: the workers stop")
        phase = .stopping(until: scheduler.now &+ Self.grace.nanoseconds)
        for worker in workers { worker?.shutDown() }
    }

    private func finish() {
        phase = .over
        for worker in workers {
            guard let worker else { continue }
            conserve(worker)
            let left = worker.metrics.messages.snapshot().inFlight
            if left != 0 { judge.fail(.conserved, "worker \(worker.process) ends with \(left) copies in flight") }
        }
        if let missing = account.keys.indices.first(where: { !judge.isStored($0) }) {
            judge.fail(.ackAfterCommit, "message \(missing) was acked, and is not stored any more")
        }
        let good = (0..<plan.messages).count { !plan.text.isOdd($0) }
        let stored = database.read { $0.messages.count }
        if stored != good { judge.fail(.storedOnce, "\(stored) rows for \(good) messages") }
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
    }
}
