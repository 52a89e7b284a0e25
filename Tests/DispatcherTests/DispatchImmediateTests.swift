import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import Tracing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// Keeps what it is given, call by call; writes down a message before it is done with it.
private final class OutlineBook: ImmediateHandler {
    private let taken = Mutex<[[MessageOutline]]>([])
    private let alone = Atomic(0)

    /// Its calls.
    var calls: [[MessageOutline]] { taken.withLock { $0 } }
    /// The messages of all of them.
    var keys: Set<Digest128> { Set(calls.joined().map(\.messageKey)) }
    /// How many messages it was given by themselves.
    var single: Int { alone.load(ordering: .relaxed) }

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        alone.add(1, ordering: .relaxed)
        return .done
    }

    func take(_ messages: [MessageOutline], handler: String) {
        #expect(handler == "now")
        taken.withLock { $0.append(messages) }
    }
}

/// A table that looks, whenever deliveries are settled, whether the handler has had them.
private final class AskedDeliveries: QuietDeliveries {
    private struct State {
        var waiting: [Delivery]
        var settled: [Settlement] = []
        var blocks: [BlockSettlement] = []
        var early = 0
    }

    private let handler: OutlineBook
    private let state: Mutex<State>

    /// A table with deliveries to be claimed.
    init(_ handler: OutlineBook, waiting: [Delivery] = []) {
        self.handler = handler
        state = Mutex(State(waiting: waiting))
    }

    /// The settlements of rows.
    var settled: [Settlement] { state.withLock { $0.settled } }
    /// Those of blocks.
    var blocks: [BlockSettlement] { state.withLock { $0.blocks } }
    /// How many were done that the handler had not had.
    var early: Int { state.withLock { $0.early } }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        state.withLock { state in
            let count = request.isForSuspects ? 0 : min(state.waiting.count, request.limit)
            defer { state.waiting.removeFirst(count) }
            return Array(state.waiting.prefix(count))
        }
    }

    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let done = settlements.filter { $0.outcome == .done }.map(\.messageKey)
        let early = done.filter { !self.handler.keys.contains($0) }.count
        state.withLock { state in
            state.settled += settlements
            state.early += early
        }
        return settlements.count
    }

    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        let early = blocks.flatMap(\.done).filter { !self.handler.keys.contains($0) }.count
        state.withLock { state in
            state.blocks += blocks
            state.early += early
        }
        return blocks.reduce(0) { $0 + $1.done.count }
    }
}

@Suite("Handlers that take their messages on the spot", .timeLimit(.minutes(5)))
struct DispatchImmediateTests {
    private let handler = OutlineBook()
    private let metrics = Metrics(senders: [], categories: [], handlers: ["now"], version: "test")

    private func run(
        _ store: AskedDeliveries,
        concurrency: Int = HandlerRegistration.defaultConcurrency,
        tracing: MessageTracing? = nil,
        _ body: (DispatchService) async throws -> Void
    ) async {
        let service = DispatchService.forOne(
            handler,
            of: store,
            poll: .milliseconds(20),
            metrics: metrics,
            tracing: tracing
        ) { $0.concurrency = concurrency }
        await service.run { try await body(service) }
    }

    /// Messages whose id, token, category and data are one byte.
    private func received(_ count: UInt8) -> [IncomingMessage] {
        messages(1...count).map { message in
            var message = message
            message.messageID = message.stanza
            message.registrationToken = message.stanza
            message.category = message.stanza
            message.data = message.stanza
            message.dataForm = .json
            message.messageKey = Digest128(high: 2, low: UInt64(message.bytes[0]))
            message.deviceKey = Digest128(high: 3, low: UInt64(message.bytes[0]))
            return message
        }
    }

    @Test("Each message is given once, many with one call whatever the concurrency, and settled after its call")
    func rows() async throws {
        let store = AskedDeliveries(handler, waiting: (1...500).map { Delivery.row($0, attempts: Int($0) % 2) })
        await run(store, concurrency: 1) { _ in
            try await waitUntil("all are settled") { store.settled.count == 500 }
        }
        let calls = handler.calls
        #expect(handler.single == 0 && calls.joined().count == 500 && handler.keys.count == 500 && store.early == 0)
        #expect(calls.allSatisfy { (1...LaneSettings.mostAtOnce).contains($0.count) } && calls.count < 250)
        #expect(calls.joined().allSatisfy { $0.attempt == Int($0.messageKey.low) % 2 + 1 && $0.dataCount == 3 })
        #expect(store.settled.allSatisfy { $0.outcome == .done && $0.attempt?.outcome == .done })
        let counted = metrics.handler(0)
        #expect(counted.deliveries[.done].value == 500 && counted.duration.snapshot().count == 500)
    }

    @Test("A block is done as a whole, in the order of its messages")
    func block() async throws {
        let store = AskedDeliveries(handler)
        let batch = received(200)
        await run(store) { service in
            await service.waitUntilSubscribed()
            let offer = service.intake.offer(for: batch.count, bytes: 0)
            service.intake.committed(offer, messages: batch, outcomes: batch.map { _ in .stored })
            try await waitUntil("the block is settled") { !store.blocks.isEmpty }
        }
        let block = try #require(store.blocks.first)
        #expect(store.blocks.count == 1 && block.isComplete && store.settled.isEmpty && store.early == 0)
        #expect(block.done == batch.map(\.messageKey) && block.attempts.count == 200)
        let outlines = Array(handler.calls.joined())
        #expect(outlines == batch.map { MessageOutline(UpstreamMessage($0, senderID: "s")!, attempt: 1) })
    }

    @Test("One that can't be handed over is set aside, and the others of its block are done")
    func unusable() async throws {
        let store = AskedDeliveries(handler)
        var batch = received(40)
        batch[7].category = nil
        let bad = batch[7].messageKey
        await run(store) { service in
            await service.waitUntilSubscribed()
            let offer = service.intake.offer(for: batch.count, bytes: 0)
            service.intake.committed(offer, messages: batch, outcomes: batch.map { _ in .stored })
            try await waitUntil("all are settled") {
                store.blocks.reduce(0) { $0 + $1.done.count } + store.settled.count == 40
            }
        }
        #expect(handler.keys.count == 39 && !handler.keys.contains(bad) && store.early == 0)
        let dead = store.settled.filter { $0.outcome == .dead(.missing, isCounted: true) }
        #expect(dead.map(\.messageKey) == [bad] && dead.first?.attempt?.outcome == .rejected)
    }

    @Test("With tracing each attempt has a span, and so a call of its own")
    func traced() async throws {
        let store = AskedDeliveries(handler, waiting: (1...20).map { Delivery.row($0) })
        let sampler = TraceSampler(ratio: 1)
        let tracing = MessageTracing(tracer: NoOpTracer(), sampler: sampler, member: nil, senderIDs: ["s"])
        await run(store, tracing: tracing) { _ in
            try await waitUntil("all are settled") { store.settled.count == 20 }
        }
        #expect(handler.single == 20 && handler.calls.isEmpty)
    }

    @Test("What is paused or over its concurrency waits, and comes in its turn")
    func turns() throws {
        let registration = HandlerRegistration("now", categories: .all, handler: handler)
        let start = ContinuousClock.now
        var machine = DispatchStateMachine(LaneSettings(registration, DispatchSettings(), isImmediate: true))
        _ = machine.claimed((1...100).map { Delivery.row($0) }, hasMore: false, now: start)
        var attempts: [DispatchStateMachine.Attempt] = []
        while let attempt = machine.begin(now: start) { attempts.append(attempt) }
        #expect(attempts.map(\.delivery.messageKey.low) == (1...64).map { $0 })
        _ = machine.setPaused(true)
        #expect(machine.begin(now: start) == nil && machine.running.count == 64)
    }
}
