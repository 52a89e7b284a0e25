package import Logging
import Synchronization
package import Telemetry
package import UpstreamKit
package import Vocabulary

/// Delivers stored messages to their handlers: at least once each, outside the ack path (G6).
///
/// Each handler has a lane: slots that run attempts, a state machine that decides, and its own loops for what waits for
/// the database: claims, settlements, heartbeats. A handler that is slow, hangs or fails, or whose rows are locked,
/// occupies only its own. What never waits (deadlines, metrics) is shared.
package final class DispatchService: Sendable {
    package var intake: any DeliveryIntake { dispatchIntake }

    package var replays: any ReplayIntake { dispatchIntake }

    let lanes: [DispatchLane]
    let store: any DeliveryStore
    let settings: DispatchSettings
    let clock: TimeSource
    let report: DispatchReport
    let settler: DispatchSettler
    let dispatchIntake: DispatchIntake
    let shutdown = DispatchSignal()
    /// Wakes the loop that refreshes the operators' controls.
    let controls = DispatchSignal()
    let subscribed = DispatchSignal()
    /// Set if the database doesn't know the registration.
    let registrationLost: DispatchSignal
    /// The progress of the loop that watches deadlines, for the watchdog; it checks every handler's state four times a
    /// second, and never waits for the database.
    package let progress = LoopProgress("dispatcher")
    /// Writes what attempts have left in memory.
    let flush: @Sendable () -> Void
    private let isEnding = Atomic<Bool>(false)

    /// Makes a service for the handlers of this worker.
    ///
    /// - Parameters:
    ///   - store: The database side.
    ///   - registrations: The handlers, validated.
    ///   - senderIDs: The configured senders, by their index in ``UpstreamKit/IncomingMessage/sender``.
    ///   - settings: How to dispatch.
    ///   - metrics: Counts deliveries.
    ///   - logger: Logs failures and changes of state.
    ///   - clock: The clock and random source.
    ///   - tracing: Records spans; nil if tracing is off.
    ///   - flush: Writes what attempts have left in memory, such as log lines; called before their outcome is
    ///     committed, a few times a second, and at the end.
    ///   - execute: Runs one attempt.
    package init(
        store: any DeliveryStore,
        registrations: [HandlerRegistration],
        senderIDs: [String],
        settings: DispatchSettings,
        metrics: Metrics,
        logger: Logger,
        clock: TimeSource = .system,
        tracing: MessageTracing? = nil,
        flush: @escaping @Sendable () -> Void = {},
        execute: @escaping DeliveryExecutor
    ) {
        let settings = settings.shared(by: registrations.count)
        let names = registrations.map(\.name)
        let report = DispatchReport(handlers: names, metrics: metrics, logger: logger)
        let registrationLost = DispatchSignal()
        let controls = controls
        let lanes = registrations.enumerated().map { index, registration in
            DispatchLane(
                index: index,
                registration: registration,
                settings: settings,
                senderIDs: senderIDs,
                clock: clock,
                report: report,
                holds: controls,
                tracing: tracing,
                execute: execute
            )
        }
        let settler = DispatchSettler(
            handlers: names,
            store: store,
            settings: settings,
            clock: clock,
            report: report,
            willSettle: flush
        ) { lane in
            // The next message of a device can be claimed once the previous one is settled.
            if lanes[lane].settings.isOrdered { lanes[lane].claims.set() }
        }
        self.flush = flush
        self.lanes = lanes
        self.registrationLost = registrationLost
        self.store = store
        self.settings = settings
        self.clock = clock
        self.report = report
        self.settler = settler
        dispatchIntake = DispatchIntake(
            lanes: lanes,
            settings: settings,
            clock: clock,
            settler: settler,
            released: { settlements, lane in
                report.settledUnrun(settlements, lane)
                settler.submit(settlements, lane: lane)
            },
            registrationLost: { registrationLost.set() }
        )
    }

    /// Stops new attempts; ``run()`` returns once those under way have ended and all is settled.
    ///
    /// Call it once ingest has ended.
    package func beginShutdown() {
        shutdown.finish()
    }

    /// Whether no attempt runs or waits and no settlement is pending: only calls to the database may be under way.
    ///
    /// False while the handlers themselves shut down.
    package var isIdle: Bool {
        !isEnding.load(ordering: .relaxed) && settler.isEmpty && lanes.allSatisfy { $0.inspect(\.isIdle) }
    }

    /// The activity of each handler in this worker, in order of registration.
    package var activity: [HandlerActivity] {
        let now = clock.now()
        return lanes.map { lane in
            lane.inspect { machine in
                let (circuit, probe) = machine.breaker.phase(now: now)
                return HandlerActivity(
                    handler: lane.settings.name,
                    circuit: circuit,
                    nextProbe: probe.map { now.duration(to: $0) },
                    isPaused: machine.isPaused,
                    running: machine.running.count,
                    waiting: machine.waiting.count
                )
            }
        }
    }

    /// Changes a handler's retry policy.
    ///
    /// Nothing else changes: running attempts continue, and scheduled ones keep their time.
    ///
    /// - Returns: Whether this worker has such a handler.
    package func adopt(_ retry: RetryPolicy, of handler: String) -> Bool {
        guard let lane = lanes.first(where: { $0.settings.name == handler }) else { return false }
        lane.withMachine(wake: 0) { $0.adopt(retry) }
        return true
    }

    /// Waits until the handlers are subscribed in the database: they would miss messages received before.
    ///
    /// For one task while ``run()`` runs; returns early if cancelled.
    package func waitUntilSubscribed() async {
        _ = await subscribed.wait()
    }

    /// Runs until ``beginShutdown()``, or until cancelled.
    ///
    /// Attempts that don't end within the settings' `drain` after shutdown began are cancelled, and their leases are
    /// released without counting an attempt (G7).
    package func run() async {
        if !lanes.isEmpty { await dispatch() }
        isEnding.store(true, ordering: .relaxed)
        defer { isEnding.store(false, ordering: .relaxed) }
        // Concurrently: a slow one must not use up the others' time.
        await withDiscardingTaskGroup { tasks in
            for lane in lanes {
                guard case .handler(let handler) = lane.registration.body else { continue }
                tasks.addTask { await handler.shutdown() }
            }
        }
        flush()
    }

    private func dispatch() async {
        await withTaskGroup(of: Void.self) { loops in
            loops.addTask { [settler] in await settler.run() }
            await withTaskGroup(of: Void.self) { watchers in
                watchers.addTask { await self.registerLoop() }
                watchers.addTask { await self.pollLoop() }
                watchers.addTask { await self.rateLoop() }
                watchers.addTask { await self.watchLoop() }
                watchers.addTask { await self.controlLoop() }
                for lane in self.lanes { watchers.addTask { await self.heartbeatLoop(lane) } }
                watchers.addTask { await self.statisticsLoop() }
                watchers.addTask { await self.listenLoop() }
                await self.runSlots()
                watchers.cancelAll()
            }
            settler.finish()
        }
    }
}
