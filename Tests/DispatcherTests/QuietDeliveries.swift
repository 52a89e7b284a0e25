import Dispatcher
import IntegrationSupport
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// A table of deliveries that nobody else works with: nothing is paused, lost or told.
protocol QuietDeliveries: DeliveryStore {}

extension QuietDeliveries {
    func listen(wake: @Sendable () -> Void) async throws(StoreError) {
        // Nobody else tells us anything.
        try? await Task.sleep(for: .seconds(3_600))
    }

    func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 { 1 }
    func controls(_ handlers: [String]) async throws(StoreError) -> [HandlerControl] { [] }
    func share(_ request: ShareRequest) async throws(StoreError) -> Int? { request.most }
    func hold(_ handler: String, _ hold: HandlerHold) async throws(StoreError) {}
    func changeCircuit(_ handler: String, isOpen: Bool) async throws(StoreError) -> CircuitChange? { nil }
    func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference> { Set(leases) }
    func pause(_ handler: String, reason: String) async throws(StoreError) {}
    func unclaimed() async throws(StoreError) -> [String] { [] }
    func keep(_ handlers: [String]) async throws(StoreError) {}
    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] { [] }
}

extension ClaimRequest {
    /// The delivery of a message of its own, leased as asked for.
    func delivery(_ number: UInt64) -> Delivery {
        let key = Digest128(high: 1, low: number)
        return Delivery(
            content: .stored(.sample(category: "c", data: nil, messageKey: MessageKey(key))),
            messageKey: key,
            lease: Lease(token: 1, deadline: .now + lease)
        )
    }
}

extension Delivery {
    /// A row of a message of its own, under a lease that outlasts any test.
    static func row(_ number: UInt64, attempts: Int = 0, crashes: Int = 0) -> Delivery {
        let key = Digest128(high: 1, low: number)
        return Delivery(
            content: .stored(.sample(category: "c", data: "[1]", messageKey: MessageKey(key))),
            messageKey: key,
            attempts: attempts,
            crashes: crashes,
            lease: Lease(token: 1, deadline: .now + .seconds(600))
        )
    }
}

extension DispatchService {
    /// A service for one handler, named `now`, which keeps its attempts.
    static func forOne(
        _ handler: any UpstreamHandler,
        of store: any QuietDeliveries,
        poll: Duration,
        metrics: Metrics,
        clock: TimeSource = .system,
        tracing: MessageTracing? = nil,
        _ change: (inout HandlerRegistration) -> Void
    ) -> DispatchService {
        var registration = HandlerRegistration("now", categories: .all, handler: handler)
        change(&registration)
        var settings = DispatchSettings()
        settings.poll = poll
        settings.recordsAttempts = true
        return DispatchService(
            store: store,
            registrations: [registration],
            senderIDs: ["s"],
            settings: settings,
            metrics: metrics,
            logger: .quiet,
            clock: clock,
            tracing: tracing,
            execute: { registration, calls in await registration.handle(calls) }
        )
    }

    /// Runs while the body runs.
    func run(while body: () async throws -> Void) async {
        let task = Task { await run() }
        do {
            try await body()
        } catch {
            Issue.record(error)
        }
        beginShutdown()
        await task.value
    }
}
