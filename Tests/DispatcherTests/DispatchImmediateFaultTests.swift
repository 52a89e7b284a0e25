import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// Keeps what it is given, call by call, and does before what a test asks of it.
private final class InterruptedBook: ImmediateHandler {
    private let taken = Mutex<[[UInt64]]>([])
    private let hook = Mutex<@Sendable (Int) -> Void>({ _ in })

    /// The messages of its calls.
    var calls: [[UInt64]] { taken.withLock { $0 } }

    /// Calls the body with each call's number of messages, while these are taken.
    func whileTaking(_ body: @escaping @Sendable (Int) -> Void) { hook.withLock { $0 = body } }

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        Issue.record("a message was given by itself")
        return .done
    }

    func take(_ messages: [MessageOutline], handler: String) {
        let hook = hook.withLock { $0 }
        hook(messages.count)
        taken.withLock { $0.append(messages.map(\.messageKey.low)) }
    }
}

/// A table that gives its deliveries out as the real one does.
///
/// A suspect comes only where it is asked for; where order is asked for, nothing comes of a device that has an earlier one. The
/// device is the hundreds of the message's number.
private final class OrderlyDeliveries: QuietDeliveries {
    private struct State {
        var rows: [(delivery: Delivery, isLeased: Bool)]
        var settled: [Settlement] = []
    }

    private let state: Mutex<State>

    init(_ rows: [Delivery]) { state = Mutex(State(rows: rows.map { ($0, false) })) }

    var settled: [Settlement] { state.withLock { $0.settled } }
    /// The messages that are done.
    var done: Set<UInt64> { Set(settled.filter { $0.outcome == .done }.map(\.messageKey.low)) }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        state.withLock { state in
            var devices: Set<UInt64> = []
            var claimed: [Delivery] = []
            for (index, row) in state.rows.enumerated() where claimed.count < request.limit {
                let isFirst = devices.insert(row.delivery.messageKey.low / 100).inserted
                let isSuspect = row.delivery.crashes >= request.suspectFrom
                guard !row.isLeased, isSuspect == request.isForSuspects, isFirst || !request.isOrdered
                else { continue }
                state.rows[index].isLeased = true
                claimed.append(row.delivery)
            }
            return claimed
        }
    }

    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let keys = Set(settlements.map(\.messageKey))
        state.withLock { state in
            state.settled += settlements
            state.rows.removeAll { keys.contains($0.delivery.messageKey) }
        }
        return settlements.count
    }

    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
}

@Suite("Handlers that take their messages on the spot, where it lasts or fails", .timeLimit(.minutes(5)))
struct DispatchImmediateFaultTests {
    private let handler = InterruptedBook()
    private let metrics = Metrics(senders: [], categories: [], handlers: ["now"], version: "test")

    /// A service that never comes to poll.
    private func service(
        _ store: OrderlyDeliveries,
        ordering: HandlerOrdering = .none,
        clock: TimeSource = .system
    ) -> DispatchService {
        .forOne(handler, of: store, poll: .seconds(60), metrics: metrics, clock: clock) { $0.ordering = ordering }
    }

    /// A clock on which only the handler's time passes.
    private func clock(_ time: ManualTime) -> TimeSource {
        TimeSource(now: { time.instant }, sleep: TimeSource.system.sleep, random: { 1 })
    }

    @Test("The time of a call is booked once, however many messages share it")
    func durations() async {
        let store = OrderlyDeliveries((1...64).map { Delivery.row($0) })
        let time = ManualTime()
        handler.whileTaking { time.pass(.seconds($0)) }
        await service(store, clock: clock(time)).run {
            try await waitUntil("all are settled") { store.done.count == 64 }
        }
        #expect(handler.calls.map(\.count) == [64])
        let booked = metrics.handler(0).duration.snapshot()
        #expect(booked.count == 64 && booked.sum == 64)
        #expect(store.settled.allSatisfy { $0.attempt?.took == .seconds(1) })
    }

    @Test("One whose lease is lost while it is taken is not settled, nor counted as done; the others are")
    func lostLease() async {
        let store = OrderlyDeliveries((1...4).map { Delivery.row($0) })
        let time = ManualTime()
        let service = service(store, clock: clock(time))
        handler.whileTaking { [lane = service.lanes[0]] count in
            time.pass(.seconds(count))
            let asked = [LeaseReference(messageKey: Digest128(high: 1, low: 2), token: 1)]
            lane.cancel(lane.withMachine(wake: 0) { $0.extended(asked, held: [], until: .now) })
        }
        let counted = metrics.handler(0)
        await service.run {
            try await waitUntil("all have ended") { store.done.count >= 3 && counted.duration.snapshot().count == 4 }
        }
        #expect(handler.calls == [[1, 2, 3, 4]])
        #expect(store.settled.map(\.messageKey.low) == [1, 3, 4])
        #expect(counted.deliveries[.done].value == 3 && counted.deliveries[.released].value == 1)
        #expect(counted.duration.snapshot().sum == 4)
    }

    @Test("The next that may crash the worker come when the one before has ended, not with a poll, two at once")
    func suspects() async {
        let store = OrderlyDeliveries((1...3).map { Delivery.row($0, crashes: 2) })
        await service(store).run {
            try await waitUntil("all are settled") { store.done.count == 3 }
        }
        #expect(handler.calls == [[1], [2, 3]])
    }

    @Test("With an order by device, a device's messages come one at a time, in their order")
    func ordered() async {
        let store = OrderlyDeliveries(
            (1...10 as ClosedRange<UInt64>).flatMap { number in [100, 200, 300].map { Delivery.row($0 + number) } }
        )
        let service = service(store, ordering: .device)
        await service.run {
            await service.waitUntilSubscribed()
            // What is in order waits in the table.
            #expect(service.intake.offer(for: 5, bytes: 0).handlers.isEmpty)
            try await waitUntil("all are settled") { store.done.count == 30 }
        }
        for device: UInt64 in [100, 200, 300] {
            let own = handler.calls.map { call in call.filter { $0 / 100 == device / 100 } }
            #expect(own.allSatisfy { $0.count <= 1 })
            #expect(Array(own.joined()) == (1...10).map { device + $0 })
        }
    }
}
