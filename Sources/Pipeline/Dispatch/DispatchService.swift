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

    private let lanes: [DispatchLane]
    private let store: any DeliveryStore
    private let settings: DispatchSettings
    private let time: DispatchTime
    private let report: DispatchReport
    private let settler: DispatchSettler
    private let entrance: DispatchIntake
    private let claims: DispatchSignal
    private let shutdown = DispatchSignal()
    private let subscribed = DispatchSignal()
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
    ///   - time: The clock and the dice.
    ///   - execute: Runs one attempt.
    package init(
        store: any DeliveryStore,
        registrations: [HandlerRegistration],
        senderIDs: [String],
        settings: DispatchSettings,
        metrics: Metrics,
        logger: Logger,
        time: DispatchTime = .system,
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
                time: time,
                report: report,
                claims: claims,
                execute: execute
            )
        }
        let settler = DispatchSettler(
            handlers: names,
            store: store,
            settings: settings,
            time: time,
            report: report
        ) { lane in
            // The next message of a device can be claimed once the one before is settled.
            if lanes[lane].settings.isOrdered { claims.set() }
        }
        self.lanes = lanes
        self.claims = claims
        self.store = store
        self.settings = settings
        self.time = time
        self.report = report
        self.settler = settler
        entrance = DispatchIntake(
            lanes: lanes,
            settings: settings,
            time: time,
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

    // MARK: Slots

    private enum SlotEvent {
        case slotEnded
        case shutdownBegan
        case drainEnded
    }

    private func runSlots() async {
        await withTaskGroup(of: SlotEvent.self) { group in
            var slots = 0
            for lane in lanes {
                for _ in 0..<lane.settings.concurrency {
                    slots += 1
                    group.addTask {
                        await lane.work(settler: self.settler) { await self.pause(lane, for: $0) }
                        return .slotEnded
                    }
                }
            }
            // A claim that is cut short may have leased rows that nobody knows of: it ends like a slot.
            slots += 1
            group.addTask {
                await self.claimLoop()
                return .slotEnded
            }
            group.addTask {
                _ = await self.shutdown.wait()
                return .shutdownBegan
            }
            for await event in group {
                switch event {
                case .slotEnded: slots -= 1
                case .shutdownBegan:
                    claims.finish()
                    for lane in lanes {
                        let released = lane.withMachine { $0.stop() }
                        report.settledUnrun(released, lane.index)
                        settler.submit(released, lane: lane.index, isUrgent: true)
                    }
                    group.addTask {
                        try? await self.time.sleep(self.settings.drain)
                        return .drainEnded
                    }
                case .drainEnded:
                    group.cancelAll()
                    for lane in lanes { await giveUp(lane) }
                }
                if slots == 0 { group.cancelAll() }
            }
        }
    }

    /// Gives cancelled attempts a moment to end by themselves, then hands back what they hold.
    private func giveUp(_ lane: DispatchLane) async {
        for _ in 0..<20 {
            if lane.inspect({ $0.isIdle }) { return }
            do { try await time.sleep(.milliseconds(50)) } catch { break }
        }
        let released = lane.withMachine { $0.abandon() }
        report.settledUnrun(released, lane.index)
        settler.submit(released, lane: lane.index, isUrgent: true)
    }

    // MARK: Loops

    /// Registers the handlers; without the database nothing can begin.
    private func start() async {
        let token = await untilDone { () async throws(StoreError) -> Int64 in
            try await self.store.register(self.lanes.map(\.registration))
        }
        guard let token else { return }
        await refreshPauses()
        entrance.open(token: token)
        subscribed.set()
        claims.set()
    }

    private func claimLoop() async {
        while await claims.wait() {
            guard entrance.isOpen else { continue }
            for lane in lanes { await claim(lane) }
        }
    }

    private func claim(_ lane: DispatchLane) async {
        let limit = lane.inspect { $0.claimLimit(now: time.now()) }
        guard limit > 0 else { return }
        var request = ClaimRequest(
            handler: lane.settings.name,
            limit: limit,
            lease: settings.lease,
            owner: settings.owner,
            isOrdered: lane.settings.isOrdered
        )
        if lane.inspect({ $0.isAboutToProbe(now: time.now()) }) {
            // What failed before may fail for its own sake and say nothing about the handler.
            request.isForUntried = true
            guard await claim(request, lane) == 0 else { return }
            request.isForUntried = false
        }
        guard await claim(request, lane) != nil else { return }
        // However much else there is. Deliveries that may bring the worker down are tried one at a time, over all handlers.
        guard !lanes.contains(where: { $0.inspect { $0.hasSuspect } }) else { return }
        request.isForSuspects = true
        request.limit = 1
        _ = await claim(request, lane)
    }

    private func claim(_ request: ClaimRequest, _ lane: DispatchLane) async -> Int? {
        do throws(StoreError) {
            let deliveries = try await store.claim(request)
            let isFull = deliveries.count == request.limit && !request.isForSuspects
            let settlements = lane.withMachine(wake: deliveries.count) { $0.claimed(deliveries, hasMore: isFull) }
            report.settledUnrun(settlements, lane.index)
            settler.submit(settlements, lane: lane.index)
            return deliveries.count
        } catch {
            report.storeFailed(error, isFirst: false)
            return nil
        }
    }

    private func pollLoop() async {
        while (try? await time.sleep(settings.poll)) != nil {
            guard entrance.isOpen else { continue }
            await refreshPauses()
            // Also wakes slots that wait for a breaker's time to be over.
            for lane in lanes { lane.withMachine { $0.tick() } }
            claims.set()
        }
    }

    private func refreshPauses() async {
        do throws(StoreError) {
            let paused = try await store.paused(lanes.map(\.settings.name))
            for lane in lanes { setPaused(paused.contains(lane.settings.name), lane) }
        } catch {
            report.storeFailed(error, isFirst: false)
        }
    }

    private func setPaused(_ isPaused: Bool, _ lane: DispatchLane) {
        guard lane.inspect({ $0.isPaused }) != isPaused else { return }
        let released = lane.withMachine { $0.setPaused(isPaused) }
        report.paused(isPaused, lane.index)
        report.settledUnrun(released, lane.index)
        settler.submit(released, lane: lane.index)
    }

    private func pause(_ lane: DispatchLane, for failure: HandlerFailure) async {
        report.paused(true, lane.index)
        _ = await untilDone { () async throws(StoreError) in
            try await self.store.pause(lane.settings.name, reason: failure.detail)
        }
    }

    private func watchLoop() async {
        while (try? await time.sleep(.milliseconds(250))) != nil {
            for lane in lanes {
                let now = time.now()
                lane.cancel(lane.withMachine(wake: 0) { $0.overdue(now: now) })
            }
        }
    }

    private func heartbeatLoop() async {
        var hanging = lanes.map { _ in 0 }
        while (try? await time.sleep(settings.heartbeat)) != nil {
            for lane in lanes {
                let now = time.now()
                let count = lane.inspect { $0.hanging(now: now) }
                if count > hanging[lane.index] { report.hanging(count, lane.index) }
                hanging[lane.index] = count
                let leases = lane.inspect { $0.leasesToExtend(now: now) }
                guard !leases.isEmpty else { continue }
                do throws(StoreError) {
                    let held = try await store.extend(leases, of: lane.settings.name, by: settings.lease)
                    let end = now + settings.lease
                    lane.cancel(lane.withMachine(wake: 0) { $0.extended(leases, held: held, until: end) })
                } catch {
                    report.storeFailed(error, isFirst: false)
                }
            }
        }
    }

    private func statisticsLoop() async {
        var told: Set<String> = []
        repeat {
            do throws(StoreError) {
                for backlog in try await store.backlog(lanes.map(\.settings.name)) { report.backlog(backlog) }
                for name in try await store.unclaimed() where told.insert(name).inserted { report.unclaimed(name) }
            } catch {
                report.storeFailed(error, isFirst: false)
            }
        } while (try? await time.sleep(settings.statistics)) != nil
    }

    private func listenLoop() async {
        var isTold = false
        var attempt = 0
        while !Task.isCancelled {
            do throws(StoreError) {
                try await store.listen { self.claims.set() }
                if !isTold { report.notificationsUnavailable() }
                isTold = true
                // Another server, or another pooler, may be reached by then.
                guard (try? await time.sleep(.seconds(600))) != nil else { return }
                attempt = 0
            } catch {
                guard !Task.isCancelled else { return }
                report.storeFailed(error, isFirst: false)
                attempt += 1
                let delay = DispatchReport.retry.delay(attempt: attempt, random: time.random())
                guard (try? await time.sleep(delay)) != nil else { return }
            }
        }
    }

    /// Tries until the database does it; nil when cancelled.
    private func untilDone<T>(_ body: () async throws(StoreError) -> T) async -> T? {
        var attempt = 0
        while true {
            do throws(StoreError) {
                let value = try await body()
                if attempt > 0 { report.recovered() }
                return value
            } catch {
                if Task.isCancelled { return nil }
                attempt += 1
                report.storeFailed(error, isFirst: attempt == 1)
                let delay = DispatchReport.retry.delay(attempt: attempt, random: time.random())
                guard (try? await time.sleep(delay)) != nil else { return nil }
            }
        }
    }
}
