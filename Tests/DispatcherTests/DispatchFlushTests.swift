import IntegrationSupport
import Logging
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// Notes which messages it has lines of.
private final class LineBook: LogOutput {
    private struct State {
        var writes = 0
        var lines = 0
        var keys: Set<Digest128> = []
    }

    private let state = Mutex(State())

    /// With how many calls lines came.
    var writes: Int { state.withLock { $0.writes } }
    /// How many there are.
    var lines: Int { state.withLock { $0.lines } }
    /// The messages they are about.
    var keys: Set<Digest128> { state.withLock { $0.keys } }

    func write(_ lines: [UInt8]) {
        // The key is the last value: 36 characters, a quotation mark and a brace.
        let keys = lines.split(separator: 0x0A).map { Digest128(uuid: $0.dropLast(2).suffix(36)) }
        state.withLock { state in
            state.writes += 1
            state.lines += keys.count
            state.keys.formUnion(keys.compactMap { $0 })
        }
    }
}

/// Logs a line of each message, with one call for those that it is given together.
private struct LineHandler: ImmediateHandler {
    let logger: Logger

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        take([MessageOutline(message, attempt: context.attempt)], handler: context.handler)
        return .done
    }

    func take(_ messages: [MessageOutline], handler: String) {
        logger.event(.info, .messageHandled, "message", each: messages) { [.messageKey: .uuid($0.messageKey)] }
    }
}

/// A table that looks, whenever deliveries are settled, whether their lines have been written.
private final class WatchedDeliveries: QuietDeliveries {
    private struct State {
        var left: Int
        var last: UInt64 = 0
        var settled = 0
        var settlements = 0
        var early: [Digest128] = []
        var outages: Int
    }

    private let output: LineBook
    private let state: Mutex<State>

    /// A table with deliveries to be claimed.
    ///
    /// - Parameters:
    ///   - output: Where their lines go.
    ///   - waiting: How many deliveries there are to be claimed.
    ///   - outages: How many settlements fail first.
    init(_ output: LineBook, waiting: Int, outages: Int = 0) {
        self.output = output
        state = Mutex(State(left: waiting, outages: outages))
    }

    /// How many deliveries were settled.
    var settled: Int { state.withLock { $0.settled } }
    /// With how many calls.
    var settlements: Int { state.withLock { $0.settlements } }
    /// Those whose lines were not there.
    var early: [Digest128] { state.withLock { $0.early } }

    private func settle(_ keys: [Digest128]) throws(StoreError) -> Int {
        let written = output.keys
        let isOut = state.withLock { state in
            state.settlements += 1
            state.early += keys.filter { !written.contains($0) }
            if state.outages > 0 {
                state.outages -= 1
                return true
            }
            state.settled += keys.count
            return false
        }
        if isOut {
            throw StoreError(kind: .unavailable, sqlState: nil, message: "away", failureClass: .connection)
        }
        return keys.count
    }

    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int {
        try settle(settlements.map(\.messageKey))
    }

    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        try settle(blocks.flatMap(\.done))
    }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        state.withLock { state in
            let count = request.isForSuspects ? 0 : min(state.left, request.limit)
            state.left -= count
            return (0..<count).map { _ in
                state.last += 1
                return request.delivery(state.last)
            }
        }
    }
}

/// What handlers log of messages, beside what becomes of these.
@Suite("Lines of attempts are written before their settlement", .timeLimit(.minutes(5)))
struct DispatchFlushTests {
    private let output = LineBook()

    /// Runs a dispatcher whose attempts log while the body runs, one by one or many at once.
    private func run(
        _ store: WatchedDeliveries,
        isImmediate: Bool,
        _ body: (DispatchService) async throws -> Void
    ) async throws {
        let log = GatheredLog(.lines(label: "test", level: .info, format: .json, output: output))
        let handler: any UpstreamHandler =
            isImmediate ? LineHandler(logger: log.logger) : ClosureHandler { _, _ in .done }
        var settings = DispatchSettings()
        settings.poll = .milliseconds(20)
        let service = DispatchService(
            store: store,
            registrations: [HandlerRegistration("log", categories: .all, handler: handler)],
            senderIDs: ["s"],
            settings: settings,
            metrics: Metrics(senders: [], categories: [], handlers: ["log"], version: "test"),
            logger: .quiet,
            flush: log.flush,
            execute: { _, calls in
                for call in calls {
                    log.logger.event(.info, .messageHandled, "message", [.messageKey: .uuid(call.delivery.messageKey)])
                }
                return CallEnd(calls.map { _ in .verdict(.done) })
            }
        )
        await service.run { try await body(service) }
    }

    @Test("Rows: each line is there before its delivery counts as done, with few writes", arguments: [false, true])
    func rows(_ isImmediate: Bool) async throws {
        let store = WatchedDeliveries(output, waiting: 3_000)
        try await run(store, isImmediate: isImmediate) { _ in
            try await waitUntil("all are settled") { store.settled == 3_000 }
        }
        #expect(store.early.isEmpty, "\(store.early.count) were settled without a line")
        #expect(output.lines == 3_000 && output.keys.count == 3_000)
        // A write goes before a settlement, or is one of the few for lines that nothing settles soon, or that are many.
        #expect(output.writes <= store.settlements + 40 && output.writes < 1_000)
    }

    @Test("Blocks: likewise", arguments: [false, true])
    func blocks(_ isImmediate: Bool) async throws {
        let store = WatchedDeliveries(output, waiting: 0)
        // Each byte is the text of an id, a token and a category.
        let batch = messages(1...200).enumerated().map { number, message in
            var message = message
            message.messageID = message.stanza
            message.registrationToken = message.stanza
            message.category = message.stanza
            message.messageKey = Digest128(high: 2, low: UInt64(number))
            return message
        }
        try await run(store, isImmediate: isImmediate) { service in
            await service.waitUntilSubscribed()
            let offer = service.intake.offer(for: batch.count, bytes: 0)
            #expect(offer.packed == ["log"])
            service.intake.committed(offer, messages: batch, outcomes: batch.map { _ in .stored })
            try await waitUntil("all are settled") { store.settled == 200 }
        }
        #expect(store.early.isEmpty, "\(store.early.count) were settled without a line")
        #expect(output.lines == 200 && output.keys.count == 200 && output.writes < 40)
    }

    @Test(
        "While the database is away, lines are written once, and nothing is lost at the end",
        arguments: [false, true]
    )
    func outage(_ isImmediate: Bool) async throws {
        let store = WatchedDeliveries(output, waiting: 50, outages: 3)
        try await run(store, isImmediate: isImmediate) { _ in
            try await waitUntil("all lines are written") { output.lines == 50 }
        }
        #expect(store.settled == 50 && store.early.isEmpty)
        #expect(output.lines == 50)
    }
}
