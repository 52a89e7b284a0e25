package import Logging
import Synchronization
package import Telemetry
package import UpstreamKit

/// Hands stored messages to their handlers: at least once each, outside the ack path (G6).
///
/// Each handler has a lane of its own: slots that run attempts, and a machine that decides. What they share are the
/// loops here: claims, settlements, heartbeats, deadlines and figures. A handler that is slow, hangs or fails keeps its
/// own slots busy and nothing else.
package final class DispatchService: Sendable {
    /// What ingest talks to.
    package var intake: any DeliveryIntake { entrance }

    let lanes: [DispatchLane]
    let store: any DeliveryStore
    let settings: DispatchSettings
    let clock: PipelineClock
    let report: DispatchReport
    let settler: DispatchSettler
    let entrance: DispatchIntake
    let claims: DispatchSignal
    let shutdown = DispatchSignal()
    let subscribed = DispatchSignal()
    private let isEnding = Atomic<Bool>(false)

    /// A service for the handlers of this worker.
    ///
    /// - Parameters:
    ///   - store: The database side.
    ///   - registrations: The handlers, checked.
    ///   - senderIDs: The configured senders, by their index in ``UpstreamKit/IncomingMessage/sender``.
    ///   - settings: How to dispatch.
    ///   - metrics: Where deliveries are counted.
    ///   - logger: For failures and changes of state.
    ///   - clock: The clock and random source.
    ///   - execute: Runs one attempt.
    package init(
        store: any DeliveryStore,
        registrations: [HandlerRegistration],
        senderIDs: [String],
        settings: DispatchSettings,
        metrics: Metrics,
        logger: Logger,
        clock: PipelineClock = .system,
        execute: @escaping DeliveryExecutor
    ) {
        let names = registrations.map(\.name)
        let report = DispatchReport(handlers: names, metrics: metrics, logger: logger)
        let claims = DispatchSignal()
        let lanes = registrations.enumerated().map { index, registration in
            DispatchLane(
                index: index,
                registration: registration,
                settings: settings,
                senderIDs: senderIDs,
                clock: clock,
                report: report,
                claims: claims,
                execute: execute
            )
        }
        let settler = DispatchSettler(
            handlers: names,
            store: store,
            settings: settings,
            clock: clock,
            report: report
        ) { lane in
            // The next message of a device can be claimed once the one before is settled.
            if lanes[lane].settings.isOrdered { claims.set() }
        }
        self.lanes = lanes
        self.claims = claims
        self.store = store
        self.settings = settings
        self.clock = clock
        self.report = report
        self.settler = settler
        entrance = DispatchIntake(
            lanes: lanes,
            settings: settings,
            clock: clock,
            released: { settlements, lane in
                report.settledUnrun(settlements, lane)
                settler.submit(settlements, lane: lane)
            },
            wakeClaims: { claims.set() }
        )
    }

    /// Lets no attempt begin any more; ``run()`` returns once those under way have ended and all is settled.
    ///
    /// Call it once ingest has ended, so that nothing is handed over any more.
    package func beginShutdown() {
        shutdown.finish()
    }

    /// Whether no attempt runs or waits, and nothing that has ended waits to be settled: all that is under way then is between
    /// us and the database.
    ///
    /// False while the handlers themselves shut down.
    package var isIdle: Bool {
        !isEnding.load(ordering: .relaxed) && settler.isEmpty && lanes.allSatisfy { $0.inspect(\.isIdle) }
    }

    /// Waits until the handlers are subscribed in the database: what is received before that is not theirs.
    ///
    /// For one task, beside ``run()``; ends early when it is cancelled.
    package func waitUntilSubscribed() async {
        _ = await subscribed.wait()
    }

    /// Runs until ``beginShutdown()``, or until cancelled.
    ///
    /// Attempts that don't end within the settings' `drain` after a shutdown has begun are cancelled, and their leases
    /// are released without counting an attempt (G7).
    package func run() async {
        if !lanes.isEmpty { await dispatch() }
        isEnding.store(true, ordering: .relaxed)
        defer { isEnding.store(false, ordering: .relaxed) }
        for lane in lanes {
            if case .handler(let handler) = lane.registration.body { await handler.shutdown() }
        }
    }

    private func dispatch() async {
        await withTaskGroup(of: Void.self) { loops in
            loops.addTask { [settler] in await settler.run() }
            await withTaskGroup(of: Void.self) { watchers in
                watchers.addTask { await self.start() }
                watchers.addTask { await self.pollLoop() }
                watchers.addTask { await self.watchLoop() }
                watchers.addTask { await self.heartbeatLoop() }
                watchers.addTask { await self.statisticsLoop() }
                watchers.addTask { await self.listenLoop() }
                await self.runSlots()
                watchers.cancelAll()
            }
            settler.finish()
        }
    }
}
