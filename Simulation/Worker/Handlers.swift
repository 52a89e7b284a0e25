import UpstreamKit
import Vocabulary

/// The handlers of all workers, which work, fail, dawdle and hang as the plan says.
// Sendable: on the simulation's one thread.
final class Handlers: @unchecked Sendable {
    /// A handler as the judge knows it.
    struct Kind {
        var name: String
        /// The only category it wants; nil for all.
        var category: Int?
        var ordering = HandlerOrdering.none
        var isImmediate = false

        func wants(_ message: Int, of text: MessageText) -> Bool {
            !text.isOdd(message) && (category.map { message % text.categories == $0 } ?? true)
        }
    }

    static let kinds = [
        Kind(name: "all"),
        Kind(name: "some", category: 1),
        Kind(name: "ordered", category: 2, ordering: .device),
        Kind(name: "immediate", category: 0, isImmediate: true),
    ]

    private struct State {
        var failsUntil: UInt64 = 0
        var hangsUntil: UInt64 = 0
        /// Whether each message was done.
        var isDone: [Bool] = []
        var doneCount = 0
    }

    private let scheduler: Scheduler
    private let judge: Judge
    private var random: SplitMix
    private var states = kinds.map { _ in State() }
    private let slowest: Duration

    /// A message's number by its key.
    private let number: (Digest128) -> Int?
    private let predecessor: (Int) -> Int?

    init(_ scheduler: Scheduler, seed: UInt64, judge: Judge, account: Account) {
        (self.scheduler, self.judge) = (scheduler, judge)
        number = { [unowned account] in account.number(of: $0) }
        predecessor = { [unowned account] in account.predecessor(of: $0) }
        random = SplitMix(seed: seed, for: "handlers")
        slowest = random.time(.microseconds(100), .milliseconds(50))
    }

    // MARK: Faults

    func fail(_ draw: UInt64, for time: Duration) { states[index(draw)].failsUntil = end(of: time) }
    func hang(_ draw: UInt64, for time: Duration) { states[index(draw)].hangsUntil = end(of: time) }

    func heal() {
        for index in states.indices { (states[index].failsUntil, states[index].hangsUntil) = (0, 0) }
    }

    private func index(_ draw: UInt64) -> Int { Int(draw % UInt64(states.count)) }
    private func end(of time: Duration) -> UInt64 { scheduler.now &+ time.nanoseconds }

    // MARK: Judgement

    /// How many messages a handler has done.
    func doneCount(_ index: Int) -> Int { states[index].doneCount }

    func isDone(_ message: Int, by index: Int) -> Bool {
        message < states[index].isDone.count && states[index].isDone[message]
    }

    // MARK: A worker's handlers

    /// The registrations of one worker.
    func registrations(_ time: TimeSource) -> [HandlerRegistration] {
        Self.kinds.enumerated().map { index, kind in
            let categories = kind.category.map { CategorySet(["category-\($0)"]) } ?? .all
            let handler: any UpstreamHandler =
                kind.isImmediate
                ? Immediate(handlers: self, index: index)
                : ClosureHandler { message, _ in try await self.handle(message, index, time) }
            var registration = HandlerRegistration(kind.name, categories: categories, handler: handler)
            registration.ordering = kind.ordering
            registration.retry.maximum = .seconds(10)
            registration.timeout = .seconds(20)
            return registration
        }
    }

    private func handle(_ message: UpstreamMessage, _ index: Int, _ time: TimeSource) async throws -> HandlerOutcome {
        try await time.sleep(random.time(.microseconds(10), slowest))
        while states[index].hangsUntil > scheduler.now { try await time.sleep(.milliseconds(500)) }
        if states[index].failsUntil > scheduler.now {
            return .retry(reason: "the handler fails")
        }
        done(message.messageKey.digest, index)
        return .done
    }

    fileprivate func done(_ key: Digest128, _ index: Int) {
        guard let message = number(key) else {
            return judge.fail(.handled, "\(Self.kinds[index].name) got a message that nobody sent")
        }
        while states[index].isDone.count <= message { states[index].isDone.append(false) }
        if !states[index].isDone[message] {
            if Self.kinds[index].ordering == .device, let before = predecessor(message), !isDone(before, by: index) {
                judge.fail(.ordered, "message \(message) is handled before \(before), which its device sent before it")
            }
            states[index].isDone[message] = true
            states[index].doneCount += 1
        }
        scheduler.note(UInt64(message) << 8 | UInt64(index))
        judge.note("handler \(Self.kinds[index].name): done \(message)")
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
