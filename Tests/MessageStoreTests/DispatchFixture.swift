import Dispatcher
import IntegrationSupport
import Logging
import MessageStore
import Synchronization
import Telemetry
import UpstreamKit
import Vocabulary

/// What a handler was given, by message number.
final class Seen: Sendable {
    private let numbers = Mutex<[UInt64]>([])
    var all: [UInt64] { numbers.withLock(\.self) }
    func add(_ message: UpstreamMessage) { numbers.withLock { $0.append(message.messageKey.digest.low) } }
}

extension DeliveriesFixture {
    /// A dispatcher as a worker runs it, with times short enough for tests.
    func dispatcher(
        _ handlers: [HandlerRegistration],
        owner: String = "a",
        over store: PostgresDeliveryStore? = nil,
        logger: Logger = .quiet,
        clock: TimeSource = .system,
        _ change: (inout DispatchSettings) -> Void = { _ in }
    ) -> DispatchService {
        var settings = DispatchSettings()
        settings.owner = owner
        settings.poll = .milliseconds(20)
        settings.drain = .milliseconds(100)
        change(&settings)
        return DispatchService(
            store: store ?? another(owner),
            registrations: handlers,
            senderIDs: StoreFixture.senders,
            settings: settings,
            metrics: Metrics(senders: [], categories: [], handlers: handlers.map(\.name), version: "test"),
            logger: logger,
            clock: clock,
            execute: { registration, calls in await registration.handle(calls) }
        )
    }

    /// Runs a dispatcher while the body runs, and shuts it down in order.
    func run(_ service: DispatchService, _ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            try await body()
            service.beginShutdown()
            try await group.waitForAll()
        }
    }

    /// Commits as ingest does, handing fresh messages over.
    func receive(_ numbers: ClosedRange<UInt64>, through intake: any DeliveryIntake) async throws {
        let start = IncomingMessage.now()
        let batch = numbers.map { IncomingMessage.make($0, receivedAt: start + Int64($0)) }
        let offer = intake.offer(for: batch.count, bytes: 0)
        let outcomes = try await writer.commit(batch, leasing: offer, isRetry: false)
        intake.committed(offer, messages: batch, outcomes: outcomes)
    }
}

extension HandlerRegistration {
    /// A handler that notes what it is given.
    static func make(_ name: String, seen: Seen) -> HandlerRegistration {
        .make(name) { message, _ in
            seen.add(message)
            return .done
        }
    }
}

/// Holds one attempt, whatever becomes of its task.
final class Gate: Sendable {
    private let waiting = Mutex<CheckedContinuation<Void, Never>?>(nil)

    /// Whether an attempt waits, or has waited.
    var isReached: Bool { waiting.withLock { $0 != nil } }

    func wait() async {
        await withCheckedContinuation { continuation in waiting.withLock { $0 = continuation } }
    }

    func open() { waiting.withLock { $0?.resume() } }
}
