import Telemetry
import Vocabulary

// The loops of each handler (claims and heartbeats) and the shared ones: polls, pauses, deadlines, figures and
// notifications.
extension DispatchService {
    /// Registers the handlers, retrying until the database is there; and again if it has lost the registration, after a
    /// failover or a restore.
    func registerLoop() async {
        guard await register() else { return }
        subscribed.set()
        var told: ContinuousClock.Instant?
        while await registrationLost.wait() {
            let now = clock.now()
            if told.map({ now - $0 >= .seconds(60) }) ?? true {
                report.registeringAgain()
                told = now
            }
            guard await register() else { return }
        }
    }

    private func register() async -> Bool {
        let token = await untilDone { () async throws(StoreError) -> Int64 in
            try await self.store.register(self.lanes.map(\.registration))
        }
        guard let token else { return false }
        await refreshControls()
        dispatchIntake.open(token: token)
        wakeClaims()
        return true
    }

    private func wakeClaims() {
        for lane in lanes { lane.claims.set() }
    }

    func claimLoop(_ lane: DispatchLane) async {
        while await lane.claims.wait() {
            guard dispatchIntake.isOpen else { continue }
            await claim(lane)
        }
    }

    private func claim(_ lane: DispatchLane) async {
        let limit = lane.inspect { $0.claimLimit(now: clock.now()) }
        guard limit > 0 else { return }
        // What commits while the claim is under way may not be in it.
        if lane.settings.rate != nil { lane.withMachine(wake: 0) { $0.hasArrived = false } }
        var request = ClaimRequest(
            handler: lane.settings.name,
            limit: limit,
            lease: settings.lease,
            owner: settings.owner,
            isOrdered: lane.settings.isOrdered
        )
        request.bytes = lane.inspect { $0.claimBytes }
        request.suspectFrom = lane.settings.suspectFrom
        if lane.inspect({ $0.isAboutToProbe(now: clock.now()) }) {
            // A previously failed message may be bad itself, and would say nothing about the handler.
            request.isForUntried = true
            guard await claim(request, lane) == 0 else { return }
            request.isForUntried = false
        }
        guard await claim(request, lane) != nil else { return }
        // Suspects are claimed apart, however much else there is.
        for suspects in lane.inspect({ $0.suspectClaims(like: request) }) {
            guard await claim(suspects, lane) == 0 else { return }
            if suspects.mostCrashes == .max { lane.withMachine(wake: 0) { $0.foundNoSuspects() } }
        }
    }

    private func claim(_ request: ClaimRequest, _ lane: DispatchLane) async -> Int? {
        do throws(StoreError) {
            let deliveries = try await store.claim(request)
            let isFull = request.rest(after: deliveries) == nil
            let settlements = lane.withMachine(wake: deliveries.count) {
                // The claim of a suspect says nothing about the others, which were claimed just before.
                $0.claimed(deliveries, hasMore: request.isForSuspects ? $0.hasMore : isFull, now: clock.now())
            }
            report.settledUnrun(settlements, lane.index)
            settler.submit(settlements, lane: lane.index)
            return deliveries.count
        } catch {
            report.storeFailed(error, isFirst: false)
            return nil
        }
    }

    func pollLoop() async {
        while (try? await clock.sleep(settings.poll)) != nil {
            guard dispatchIntake.isOpen else { continue }
            // Also wakes slots that wait for a breaker to half-open.
            for lane in lanes { lane.withMachine { $0.tick() } }
            wakeClaims()
            controls.set()
        }
    }

    /// Refreshes the controls, apart from the polls, which must not wait for the database.
    func controlLoop() async {
        while await controls.wait() {
            guard dispatchIntake.isOpen else { continue }
            await refreshControls()
        }
    }

    /// Claims for handlers with a rate as soon as it allows more, not only at the next poll.
    func rateLoop() async {
        guard lanes.contains(where: { $0.settings.rate != nil }) else { return }
        while (try? await clock.sleep(AttemptBudget.step)) != nil {
            let now = clock.now()
            for lane in lanes where lane.settings.rate != nil && lane.inspect({ $0.wantsClaim(now: now) }) {
                lane.claims.set()
            }
        }
    }

    /// Reads what operators and other workers want, and publishes what the handlers here asked for.
    private func refreshControls() async {
        do throws(StoreError) {
            let known = try await store.controls(lanes.map(\.settings.name))
            let now = clock.now()
            for lane in lanes {
                guard let control = known.first(where: { $0.handler == lane.settings.name }) else { continue }
                take(control, now, lane)
            }
        } catch {
            report.storeFailed(error, isFirst: false)
        }
        for lane in lanes {
            guard let hold = lane.inspect({ $0.untoldHold(now: clock.now()) }) else { continue }
            do throws(StoreError) {
                try await store.hold(lane.settings.name, hold)
                lane.withMachine(wake: 0) { $0.holdTold(hold) }
            } catch {
                // The next refresh publishes it; other handlers' pauses are published now.
                report.storeFailed(error, isFirst: false)
            }
        }
    }

    private func take(_ control: HandlerControl, _ now: ContinuousClock.Instant, _ lane: DispatchLane) {
        let (released, changes) = lane.withMachine(wake: 0) { $0.adopt(control, now: now) }
        guard !changes.isEmpty else { return }
        for change in changes { report.changed(change, lane.index) }
        report.settledUnrun(released, lane.index)
        settler.submit(released, lane: lane.index)
        // Wakes slots that waited for the breaker.
        lane.withMachine { _ in }
        lane.claims.set()
    }

    func pause(_ lane: DispatchLane, for failure: HandlerFailure) async {
        report.paused(true, lane.index)
        _ = await untilDone { () async throws(StoreError) in
            try await self.store.pause(lane.settings.name, reason: failure.detail)
        }
    }

    func watchLoop() async {
        defer {
            progress.enter(.idle)
            report.flush()
        }
        while (try? await clock.sleep(.milliseconds(250))) != nil {
            progress.enter(.working)
            report.show(activity)
            report.logDue()
            settler.unpackOld()
            // Flushes what no settlement writes soon: the database may be away.
            flush()
            for lane in lanes {
                let now = clock.now()
                lane.cancel(lane.withMachine(wake: 0) { $0.overdue(now: now) })
            }
            // Handlers that block every thread of the tasks delay the next step, which is not this loop's fault.
            progress.enter(.idle)
        }
    }

    func heartbeatLoop(_ lane: DispatchLane) async {
        var hanging = 0
        while (try? await clock.sleep(settings.heartbeat)) != nil {
            let now = clock.now()
            let count = lane.inspect { $0.hanging(now: now) }
            if count > hanging { report.hanging(count, lane.index) }
            hanging = count
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

    func statisticsLoop() async {
        var told: Set<String> = []
        repeat {
            do throws(StoreError) {
                for backlog in try await store.backlog(lanes.map(\.settings.name)) { report.backlog(backlog) }
                for name in try await store.unclaimed() where told.insert(name).inserted { report.unclaimed(name) }
            } catch {
                report.storeFailed(error, isFirst: false)
            }
        } while (try? await clock.sleep(settings.statistics)) != nil
    }

    func listenLoop() async {
        var isTold = false
        var attempt = 0
        while !Task.isCancelled {
            do throws(StoreError) {
                try await store.listen { self.wakeClaims() }
                if !isTold { report.notificationsUnavailable() }
                isTold = true
                // By then the connection may lead to another server or pooler.
                guard (try? await clock.sleep(.seconds(600))) != nil else { return }
                attempt = 0
            } catch {
                guard !Task.isCancelled else { return }
                report.storeFailed(error, isFirst: false)
                attempt += 1
                let delay = DispatchReport.retry.delay(attempt: attempt, random: clock.random())
                guard (try? await clock.sleep(delay)) != nil else { return }
            }
        }
    }

    /// Retries until it succeeds; nil if cancelled.
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
                let delay = DispatchReport.retry.delay(attempt: attempt, random: clock.random())
                guard (try? await clock.sleep(delay)) != nil else { return nil }
            }
        }
    }
}
