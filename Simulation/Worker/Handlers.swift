import Dispatcher
import SimulatedDatabase
import UpstreamKit
import Vocabulary

/// The handlers of all workers, which work, fail, dawdle and hang as the plan says.
// Sendable: on the simulation's one thread.
final class Handlers: @unchecked Sendable {
    /// A handler as the judge knows it.
    struct Kind {
        /// How it takes messages.
        enum Body {
            case alone
            case atOnce
            case together
            case function(SQLFunction)
        }

        var name: String
        /// The only category it wants; nil for all.
        var category: Int?
        var ordering = HandlerOrdering.none
        var body = Body.alone
        /// The most at the same time over all workers.
        var most: Int?
        /// Whether its filter passes only messages of even numbers.
        var isFiltered = false

        var isFunction: Bool { if case .function = body { true } else { false } }

        func wants(_ message: Int, of text: MessageText) -> Bool {
            !text.isOdd(message) && (!isFiltered || message % 2 == 0)
                && (category.map { message % text.categories == $0 } ?? true)
        }
    }

    /// Of which each run has some.
    static let kinds =
        [
            Kind(name: "all"),
            Kind(name: "some", category: 1),
            Kind(name: "ordered", category: 2, ordering: .device),
            Kind(name: "immediate", category: 0, body: .atOnce),
            Kind(name: "together", body: .together),
            Kind(name: "limited", category: 1, most: 2),
            Kind(name: "filtered", category: 2, isFiltered: true),
        ] + [SQLFunction("take")].compactMap(\.self).map { Kind(name: "function", category: 0, body: .function($0)) }

    private struct State {
        var failsUntil: UInt64 = 0
        var hangsUntil: UInt64 = 0
        var running = 0
        /// Whether each message was done.
        var isDone: [Bool]
        var doneCount = 0
        /// What a replay has queued and is not done again.
        var again: Set<Int> = []
        /// How many live and replayed messages were begun, and what these were when a live one began to wait.
        var begun = (live: 0, replayed: 0)
        var waiting: [Int: (live: Int, replayed: Int)] = [:]
        var hasBegun: Set<Int> = []
    }

    let kinds: [Kind]
    private let scheduler: Scheduler
    private let judge: Judge
    private unowned let account: Account
    private var random: SplitMix
    private var states: [State]
    private let slowest: Duration
    /// Whether calls go wrong by chance, too.
    private var isMoody = true
    /// Whether every share of a limit could be renewed: a call may outlast one that was not.
    var areShared = true
    /// Whether a handler's delivery of a message has become a dead letter: its device's next one needn't wait for it.
    var isDead: (_ message: Int, _ index: Int) -> Bool = { _, _ in false }

    init(_ kinds: [Kind], _ scheduler: Scheduler, seed: UInt64, judge: Judge, account: Account) {
        (self.kinds, self.scheduler, self.judge, self.account) = (kinds, scheduler, judge, account)
        states = kinds.map { _ in State(isDone: Array(repeating: false, count: account.total)) }
        random = SplitMix(seed: seed, for: "handlers")
        slowest = random.time(.microseconds(100), .milliseconds(50))
    }

    func fail(_ draw: UInt64, for time: Duration) { states[index(draw)].failsUntil = end(of: time) }
    func hang(_ draw: UInt64, for time: Duration) {
        states[index(draw)].hangsUntil = max(states[index(draw)].hangsUntil, end(of: time))
    }

    /// Ends faults, but that of a handler which hangs for longer.
    func heal(except stuck: Int?) {
        isMoody = false
        for index in states.indices where index != stuck {
            (states[index].failsUntil, states[index].hangsUntil) = (0, 0)
        }
    }

    func index(_ draw: UInt64) -> Int { Int(draw % UInt64(states.count)) }
    private func end(of time: Duration) -> UInt64 { scheduler.now &+ time.nanoseconds }

    func doneCount(_ index: Int) -> Int { states[index].doneCount }

    func isDone(_ message: Int, by index: Int) -> Bool { states[index].isDone[message] }

    // MARK: Replays

    func replayed(_ messages: [Int], _ index: Int) { states[index].again.formUnion(messages) }

    /// A server that takes over may lack what a replay has queued.
    func forgetReplays() { for index in states.indices { states[index].again = [] } }

    func again(_ index: Int) -> Set<Int> { states[index].again }

    /// A message is stored: it waits for its handlers.
    func waits(_ message: Int) {
        // What a filter passes is claimed first, meanwhile others begin.
        for index in kinds.indices where !kinds[index].isFiltered && kinds[index].wants(message, of: account.text) {
            if !states[index].hasBegun.contains(message) { states[index].waiting[message] = states[index].begun }
        }
    }

    /// Judges the turns: one in eight is a replayed message's, and, after they had to wait, some at once.
    private func begins(_ key: Digest128, _ index: Int) {
        guard let message = account.number(of: key) else { return }
        if states[index].again.contains(message) {
            states[index].begun.replayed += 1
        } else {
            states[index].begun.live += 1
        }
        states[index].hasBegun.insert(message)
        guard let before = states[index].waiting.removeValue(forKey: message) else { return }
        let replayed = states[index].begun.replayed - before.replayed
        guard replayed > (states[index].begun.live - before.live) / 7 + 64 else { return }
        judge.fail(.turns, "\(kinds[index].name) begins \(replayed) replayed messages while \(message) waits")
    }

    /// The registrations of one worker.
    func registrations(_ time: TimeSource) -> [HandlerRegistration] {
        kinds.enumerated().map { index, kind in
            let categories = kind.category.map { CategorySet(["category-\($0)"]) } ?? .all
            let body: HandlerRegistration.Body =
                switch kind.body {
                case .alone: .handler(ClosureHandler { message, _ in try await self.handle(message, index, time) })
                case .atOnce: .handler(Immediate(handlers: self, index: index))
                case .together: .handler(Together(handlers: self, index: index, time: time))
                case .function(let function): .function(function, batch: 20)
                }
            var registration = HandlerRegistration(name: kind.name, categories: categories, body: body)
            registration.ordering = kind.ordering
            registration.filter = kind.isFiltered ? "even" : nil
            if kind.isFunction { registration.concurrency = 1 }
            registration.limit = kind.most.map { HandlerLimit(concurrency: $0) }
            registration.retry.maximum = .seconds(10)
            registration.timeout = .seconds(40)
            return registration
        }
    }

    /// Takes the time of a call; false if it fails.
    private func work(_ index: Int, _ time: TimeSource) async throws -> Bool {
        try await time.sleep(random.time(.microseconds(10), slowest))
        while states[index].hangsUntil > scheduler.now { try await time.sleep(.milliseconds(500)) }
        return states[index].failsUntil <= scheduler.now
    }

    private func handle(_ message: UpstreamMessage, _ index: Int, _ time: TimeSource) async throws -> HandlerOutcome {
        begins(message.messageKey.digest, index)
        states[index].running += 1
        defer { states[index].running -= 1 }
        if let most = kinds[index].most, areShared, states[index].running > most {
            judge.fail(.limited, "\(kinds[index].name) has \(states[index].running) messages at once, of \(most)")
        }
        guard try await work(index, time) else {
            // Some fail at messages, others are down, and may ask for a pause.
            guard index % 2 == 0 else { return .retry(reason: "the handler fails") }
            let hold = random.chance(0.1) ? Duration.seconds(5) : nil
            throw HandlerVerdictError(.down(after: nil, hold: hold, HandlerFailure("the handler is down")))
        }
        done(message.messageKey.digest, index)
        return .done
    }

    fileprivate func handle(_ calls: [AttemptCall], _ index: Int, _ time: TimeSource) async -> CallEnd {
        for call in calls { begins(call.delivery.messageKey, index) }
        guard let works = try? await work(index, time) else { return CallEnd(calls.map { _ in .verdict(.cancelled) }) }
        guard works else { return .failed(.retry(after: nil, HandlerFailure("the handler fails")), of: calls.count) }
        // It may have got to a part of them.
        let count = isMoody && random.chance(0.1) ? random.below(calls.count) : calls.count
        for call in calls.prefix(count) { done(call.delivery.messageKey, index) }
        let ends = calls.indices.map { $0 < count ? AttemptEnd.verdict(.done) : .alone }
        return CallEnd(ends, areTogether: count == calls.count)
    }

    /// Runs a call, which for a function is a transaction.
    func execute(
        _ registration: HandlerRegistration,
        _ calls: [AttemptCall],
        _ store: SimulatedDeliveryStore,
        _ time: TimeSource
    ) async -> CallEnd {
        guard case .function = registration.body, let index = kinds.firstIndex(where: { $0.name == registration.name })
        else { return await registration.handle(calls) }
        guard let works = try? await work(index, time) else { return CallEnd(calls.map { _ in .verdict(.cancelled) }) }
        let leases = calls.map { LeaseReference(messageKey: $0.delivery.messageKey, token: $0.delivery.lease.token) }
        return await store.call(registration.name, leases) { keys in
            guard works else { return "P0001" }
            // A bad message spoils its call; those that are taken together may wait for each other's locks.
            guard self.isMoody, !keys.contains(where: { $0.low % 16 == 3 && self.random.chance(0.5) }) else {
                return self.isMoody ? "P0001" : nil
            }
            return keys.count > 1 && self.random.chance(0.05) ? "40P01" : nil
        }
    }

    fileprivate func done(_ key: Digest128, _ index: Int) {
        guard let message = account.number(of: key), kinds[index].wants(message, of: account.text) else {
            return judge.fail(.handled, "\(kinds[index].name) got a message that is not for it")
        }
        states[index].again.remove(message)
        if !states[index].isDone[message] {
            if kinds[index].ordering == .device, let before = account.predecessor(of: message),
                !isDone(before, by: index), !isDead(before, index)
            {
                judge.fail(.ordered, "message \(message) is handled before \(before), which its device sent before it")
            }
            states[index].isDone[message] = true
            states[index].doneCount += 1
        }
        scheduler.note(UInt64(message) << 8 | UInt64(index))
        judge.note("handler \(kinds[index].name): done \(message)")
    }
}

/// A handler that takes its messages at once.
private struct Immediate: ImmediateHandler {
    let handlers: Handlers
    let index: Int

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome { .done }

    func take(_ messages: [MessageOutline], handler: String) {
        for message in messages { handlers.done(message.messageKey, index) }
    }
}

/// A handler that takes several messages in a call.
private struct Together: BatchHandler {
    let handlers: Handlers
    let index: Int
    let time: TimeSource
    let batch = 8

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome { .done }

    func handle(_ calls: [AttemptCall]) async -> CallEnd { await handlers.handle(calls, index, time) }
}
