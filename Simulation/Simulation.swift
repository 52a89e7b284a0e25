import SimulatedDatabase
import UpstreamKit
import Vocabulary

/// A run of a plan: workers, servers, network and database on one thread, faults at their times, judged after each step.
final class Simulation {
    struct Report {
        var failure: Judge.Failure?
        /// A hash over every step, delivery, ack and commit.
        var digest: UInt64
        /// One run, copies, acks, faults, steps, virtual nanoseconds.
        var counts: [Int]
        var lines: [String]
    }

    /// After the last fault everything is acked and handled within this time and a lease.
    ///
    /// A connection opens after a minute at the most; before that a worker has to notice that one is dead (45 s with the
    /// default keepalive), and that a server does not answer (10 s).
    static let recovery = Duration.seconds(120)
    /// `shutdown.grace`.
    static let grace = Duration.seconds(25)

    enum Phase {
        case traffic
        case recovering(until: UInt64)
        case stopping(until: UInt64)
        case over
    }

    let plan: Plan
    let scheduler: Scheduler
    let judge: Judge
    let account: Account
    let network: Network
    let database: SimulatedDatabase
    private let statements: DatabaseFaults
    let handlers: Handlers
    var workers: [SimulatedWorker?]
    /// How far each machine's wall clock is off, in microseconds.
    private var clockOffsets: [Int64]
    private var databaseOffset = Duration.zero
    private var random: SplitMix
    var phase = Phase.traffic
    private var struck = 0
    var brokenLeases = 0
    private var frozen: Set<Int> = []
    /// The handler that hangs: the others don't wait for it.
    var stuck: Int?
    /// How many messages each of the handlers has to do.
    let wantedCounts: [Int]

    init(_ plan: Plan) {
        self.plan = plan
        scheduler = Scheduler(seed: plan.seed)
        judge = Judge(scheduler, trace: Trace(isOn: plan.isTraced))
        let type = plan.standard == nil ? Account.self : StandardAccount.self
        account = type.init(scheduler, judge, plan)
        network = Network(scheduler, seed: plan.seed, account: account)
        database = SimulatedDatabase(
            clock: scheduler.timeSource(RandomSource(seed: plan.seed, for: "database")),
            plan.database
        )
        if plan.text.refusedEvery > 0 {
            database.setRefusal { MessageText.number(of: $0).map(plan.text.isRefused) == true ? "22P05" : nil }
        }
        statements = DatabaseFaults(scheduler, seed: plan.seed, database)
        handlers = Handlers(plan.handlers, scheduler, seed: plan.seed, judge: judge, account: account)
        stuck = plan.stuck
        if plan.judgesTurns { judge.wasAcked = { [handlers] in handlers.waits($0) } }
        if let stuck { handlers.hang(UInt64(stuck), for: .seconds(1 << 30)) }
        workers = Array(repeating: nil, count: plan.workers)
        wantedCounts = plan.handlers.map { kind in (0..<plan.messages).count { kind.wants($0, of: plan.text) } }
        random = SplitMix(seed: plan.seed, for: "simulation")
        // A machine's clock is a little off.
        clockOffsets = []
        for _ in workers { clockOffsets.append(Int64(random.below(2_000_000)) - 1_000_000) }
        judge.isStored = { [account, database] number in
            if plan.text.isOdd(number) {
                let key = QuarantineKey(senderID: Account.senderID, digest: plan.text.payloadDigest(number))
                return database.read { $0.quarantine[key] != nil }
            }
            let key = account.key(number)
            return database.read { $0.messages[key] != nil }
        }
        handlers.isDead = { [unowned self] in isDead($0, $1) }
    }

    func run() -> Report {
        for slot in workers.indices { start(slot) }
        for fault in plan.faults { scheduler.at(fault.at, as: Scheduler.world) { [self] in strike(fault) } }
        scheduler.at(plan.horizon, as: Scheduler.world) { [self] in heal() }
        arrive()
        while judge.failure == nil, !isOver {
            let hasStepped = scheduler.step()
            if !hasStepped || scheduler.steps & 31 == 0 { look() }
            guard hasStepped || isOver || scheduler.step() else {
                judge.fail(.resumes, "nothing is left to do, and \(account.total - account.ackedCount) are not acked")
                break
            }
        }
        if judge.failure != nil { Scheduler.keep(self) }
        return Report(
            failure: judge.failure,
            digest: scheduler.digest,
            counts: [1, judge.copies, judge.acks, struck, Int(scheduler.steps), Int(scheduler.now)],
            lines: judge.trace.lines
        )
    }

    private var isOver: Bool { if case .over = phase { true } else { false } }
    private var isTraffic: Bool { if case .traffic = phase { true } else { false } }

    // MARK: Traffic

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
        let worker = SimulatedWorker(self, process: process, machine: slot)
        workers[slot] = worker
        judge.note("worker \(process) starts")
        worker.start()
    }

    func wallTime(_ slot: Int) -> Timestamp {
        Timestamp(microseconds: plan.database.epoch + Int64(scheduler.now / 1_000) + clockOffsets[slot])
    }

    // MARK: Faults

    private func strike(_ fault: Fault) {
        guard isTraffic else { return }
        struck += 1
        if fault.breaksLeases(of: plan.shape.lease) { brokenLeases += 1 }
        if !Fault.Kind.outside.contains(fault.kind) { handlers.areShared = false }
        judge.note("fault: \(fault.kind), \(fault.time), \(fault.count), \(fault.draw % 100), \(fault.isOther)")
        let (draw, time, count) = (fault.draw, fault.time, fault.count)
        let slot = Int(draw % UInt64(workers.count))
        let stream = account.stream(draw)
        switch fault.kind {
        case .cut: stream?.link?.cut()
        case .halfOpen: stream?.link?.swallow(serverGivesUpAfter: time)
        case .trickle:
            if let link = stream?.link { during(time) { link.weather.piece = $0 ? 40 : nil } }
        case .refuseConnections: network.refuse(for: time)
        case .ignoreConnections: network.ignore(for: time)
        case .close: stream?.close()
        case .drain: stream?.drain(for: time)
        case .repeatMessages: account.repeatSome(count)
        case .flood: during(time) { [account] in account.window = $0 ? 2_000 : Account.usualWindow }
        case .databaseDown: during(time) { [database] in $0 ? database.crash() : database.restart() }
        case .databaseStalls: statements.stall(for: time)
        case .loseReplies: statements.loseReplies(count, ofWriters: fault.isOther)
        case .raiseErrors: statements.raise(count, ofWriters: fault.isOther)
        case .readOnly: during(time) { [database] in database.setReadOnly($0) }
        case .diskFull: during(time) { [database] in database.setDiskFull($0) }
        case .standbyAway: during(time) { [database] in database.setStandby(isConnected: !$0) }
        case .failOver:
            database.failOver(keeping: Int64(count - 1))
            handlers.forgetReplays()
        case .unconfirmed:
            guard plan.database.replication.isSynchronous else { return }
            database.setStandby(isConnected: false)
            statements.breakOffWaits(for: time)
            scheduler.after(time, as: Scheduler.world) { [self] in
                guard isTraffic else { return }
                if fault.isOther { database.failOver() } else { database.setStandby(isConnected: true) }
                handlers.forgetReplays()
            }
        case .databaseClock:
            databaseOffset += time
            database.setClock(offset: databaseOffset)
        case .workerClock: clockOffsets[slot] += time.microseconds * (fault.isOther ? 1 : -1)
        case .handlerFails: handlers.fail(draw, for: time)
        case .handlerHangs: handlers.hang(draw, for: time)
        case .pause:
            let name = handlers.kinds[handlers.index(draw)].name
            during(time) { [self] in operate(on: name, pauses: $0) }
        case .forget: database.loseRegistrations()
        case .kill: kill(slot, restart: time)
        case .freeze: freeze(slot, for: time)
        case .restart: restart(slot)
        case .serverRestart:
            account.restart(inOrder: fault.isOther)
            network.refuse(for: time)
        case .replay: replay(handlers.index(draw), most: count * 100)
        case .refuseResumption: (account as? StandardAccount)?.refuseResumption(for: time)
        }
    }

    private func during(_ time: Duration, _ change: @escaping (_ isOn: Bool) -> Void) {
        change(true)
        scheduler.after(time, as: Scheduler.world) { change(false) }
    }

    /// As an operator; waits for a lock, with a pause only as long as there are faults.
    private func operate(on handler: String, pauses: Bool = false) {
        if pauses, !isTraffic { return }
        guard pauses ? !database.pause(handler, reason: "simulated") : !database.resume(handler) else { return }
        scheduler.after(.milliseconds(5), as: Scheduler.world) { [self] in operate(on: handler, pauses: pauses) }
    }

    /// Queues the latest messages that a handler has done, which does each again.
    private func replay(_ index: Int, most: Int) {
        let kind = handlers.kinds[index]
        guard !kind.isFunction, kind.ordering == .none else { return }
        let done = (0..<account.created).filter { handlers.isDone($0, by: index) }.suffix(most)
        let queued = database.replay(kind.name, done.map(account.key)).compactMap(account.number)
        judge.note("a replay queues \(queued.count) for \(kind.name)")
        handlers.replayed(queued, index)
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

    /// Stops a worker in order; another one takes its place once it has ended.
    private func restart(_ slot: Int) {
        guard let worker = workers[slot] else { return }
        worker.shutDown()
        awaitEnd(of: worker, slot, until: scheduler.now &+ Self.grace.nanoseconds)
    }

    private func awaitEnd(of worker: SimulatedWorker, _ slot: Int, until end: UInt64) {
        scheduler.after(.milliseconds(100), as: Scheduler.world) { [self] in
            guard workers[slot] === worker else { return }
            if case .stopping = phase { return }
            if worker.hasEnded { return start(slot) }
            if scheduler.now > end, plan.endsInTime { judge.fail(.orderly, "a worker has not ended in time") }
            awaitEnd(of: worker, slot, until: end)
        }
    }

    private func heal() {
        judge.note("the last fault has ended")
        account.window = Account.usualWindow
        network.heal()
        statements.heal()
        handlers.heal(except: stuck)
        database.restart()
        database.setReadOnly(false)
        database.setDiskFull(false)
        database.setStandby(isConnected: true)
        for process in frozen.sorted() { thaw(process) }
        // Not the others: whoever resumes a handler closes its circuit breaker, too.
        for name in database.read({ $0.handlers.filter(\.value.isPaused).keys.sorted() }) { operate(on: name) }
        recover()
    }

    func recover() {
        // A slow database needs some time for each of many.
        let backlog = Duration.milliseconds(100) * (account.total - account.ackedCount)
        // A standard server may read all that it has stored before it answers a ping: eight times as long. Then there is what
        // devices have sent again meanwhile.
        let reading = plan.standard == nil ? Duration.zero : .seconds(7 * 15 + 75)
        phase = .recovering(until: scheduler.now &+ (Self.recovery + plan.shape.lease + backlog + reading).nanoseconds)
    }
}
