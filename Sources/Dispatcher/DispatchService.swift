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
    let shared: DispatchShared
    let dispatchIntake: DispatchIntake
    let shutdown = DispatchSignal()
    let subscribed = DispatchSignal()
    /// The progress of the loop that checks every handler's state four times a second and never waits for the database.
    package let progress = LoopProgress("dispatcher")
    var clock: TimeSource { shared.clock }
    private let isEnding = Atomic<Bool>(false)

    /// Makes a service for the handlers of this worker; `senderIDs` are by their index in a message's `sender`.
    ///
    /// `flush` writes what attempts have left in memory, such as log lines: before their outcome is committed, a few
    /// times a second, and at the end.
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
        let shared = DispatchShared(
            store: store,
            settings: settings.shared(by: registrations.count),
            senderIDs: senderIDs,
            clock: clock,
            report: DispatchReport(metrics, logger),
            tracing: tracing,
            flush: flush,
            execute: execute
        )
        self.shared = shared
        lanes = registrations.enumerated().map { DispatchLane(index: $0, $1, shared) }
        dispatchIntake = DispatchIntake(lanes, shared)
    }

    /// Stops new attempts, once ingest has ended; ``run()`` returns when those under way have ended and all is settled.
    package func beginShutdown() {
        shutdown.finish()
    }

    /// Whether no attempt runs or waits and no settlement is pending: only calls to the database may be under way.
    ///
    /// False while the handlers themselves shut down.
    package var isIdle: Bool {
        !isEnding.load(ordering: .relaxed) && lanes.allSatisfy { $0.settler.isEmpty && $0.inspect(\.isIdle) }
    }

    package var activity: [HandlerActivity] { lanes.map(\.activity) }

    /// Changes a handler's retry policy, for attempts not yet scheduled; false if this worker has no such handler.
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
                guard case .handler(let handler) = lane.settings.registration.body else { continue }
                tasks.addTask { await handler.shutdown() }
            }
        }
        shared.flush()
    }

    private func dispatch() async {
        await withTaskGroup(of: Void.self) { loops in
            for lane in self.lanes { loops.addTask { await lane.settler.run() } }
            await withTaskGroup(of: Void.self) { watchers in
                watchers.addTask { await self.registerLoop() }
                watchers.addTask { await self.pollLoop() }
                watchers.addTask { await self.rateLoop() }
                watchers.addTask { await self.shareLoop() }
                watchers.addTask { await self.watchLoop() }
                watchers.addTask { await self.controlLoop() }
                for lane in self.lanes { watchers.addTask { await self.heartbeatLoop(lane) } }
                watchers.addTask { await self.statisticsLoop() }
                watchers.addTask { await self.listenLoop() }
                await self.runSlots()
                watchers.cancelAll()
            }
            for lane in lanes { lane.settler.finish() }
        }
    }
}

/// A handler's activity in one worker at one moment.
package struct HandlerActivity: Sendable, Equatable {
    package var handler: String
    package var circuit: CircuitState
    /// The time until the next probe may begin; nil if the circuit is not open.
    package var nextProbe: Duration?
    /// Whether it is paused, as far as this worker knows.
    package var isPaused: Bool
    package var running: Int
    package var waiting: Int
    /// The latest failure of the handler itself, as logs name it; nil without one.
    package var lastFailure: String?
    /// Attempts that failed since the last success.
    package var failedInRow = 0
}
