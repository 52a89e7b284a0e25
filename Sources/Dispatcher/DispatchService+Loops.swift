import Telemetry
import UpstreamKit
import Vocabulary

// The loops of each handler (claims, heartbeats), and the shared ones.
extension DispatchService {
    /// Registers the handlers, retrying until the database is there, and again if a failover or restore lost them.
    func registerLoop() async {
        guard await register() else { return }
        subscribed.set()
        var told: ContinuousClock.Instant?
        while await shared.registrationLost.wait() {
            let now = clock.now()
            if told.map({ now - $0 >= .seconds(60) }) ?? true {
                shared.report.registeringAgain()
                told = now
            }
            guard await register() else { return }
        }
    }

    private func register() async -> Bool {
        let token = await shared.untilDone { () async throws(StoreError) -> Int64 in
            try await shared.store.register(lanes.map(\.settings.registration))
        }
        guard let token else { return false }
        await refreshControls()
        dispatchIntake.open(token: token)
        await renewShares()
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
            lease: shared.settings.lease,
            owner: shared.settings.owner,
            isOrdered: lane.settings.isOrdered
        )
        lane.inspect { machine in
            (request.bytes, request.replayedBytes) = (machine.claimBytes, max(1, machine.replayedBytes))
            (request.replayed, request.owed) = (machine.replayedLimit(now: clock.now()), machine.replayedOwed)
        }
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
        let found = await shared.once { () async throws(StoreError) in try await shared.store.claim(request) }
        guard let deliveries = found else { return nil }
        let left = request.left(after: deliveries)
        let settlements = lane.withMachine(wake: deliveries.count) {
            // The claim of a suspect says nothing about the others, which were claimed just before.
            $0.claimed(
                deliveries,
                hasMore: request.isForSuspects ? $0.hasMore : left.any,
                hasMoreReplayed: request.isForSuspects ? nil : left.replayed,
                now: clock.now()
            )
        }
        lane.release(settlements)
        return deliveries.count
    }

    func pollLoop() async {
        while (try? await clock.sleep(shared.settings.poll)) != nil {
            guard dispatchIntake.isOpen else { continue }
            // Also wakes slots that wait for a breaker to half-open.
            for lane in lanes { lane.withMachine { $0.tick() } }
            wakeClaims()
            shared.controls.set()
        }
    }

    /// Refreshes the controls, apart from the polls, which must not wait for the database.
    func controlLoop() async {
        while await shared.controls.wait() {
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

    /// Asks for this worker's shares of limits over all workers.
    func shareLoop() async {
        guard lanes.contains(where: { $0.settings.registration.limit != nil }) else { return }
        while (try? await clock.sleep(shared.settings.poll)) != nil {
            if dispatchIntake.isOpen { await renewShares() }
        }
    }

    private func renewShares() async {
        for lane in lanes {
            guard let request = lane.withMachine(wake: 0, { $0.requestShare() }) else { continue }
            // From before the database counts it.
            let end = clock.now() + request.lease
            let answer = await shared.once { () async throws(StoreError) in try await shared.store.share(request) }
            // Without one, others may have been given a part.
            guard let answer else { continue }
            // Wakes slots that waited for more.
            let released = lane.withMachine { machine in
                guard let parts = answer else {
                    machine.keepShare()
                    return [Settlement]()
                }
                return machine.adopt(share: parts, until: end, now: clock.now())
            }
            lane.release(released)
            lane.claims.set()
        }
    }

    /// Reads what operators and other workers want, and publishes what the handlers here asked for.
    private func refreshControls() async {
        let known = await shared.once { () async throws(StoreError) in
            try await shared.store.controls(lanes.map(\.settings.name))
        }
        let now = clock.now()
        for control in known ?? [] {
            if let lane = lanes.first(where: { $0.settings.name == control.handler }) { take(control, now, lane) }
        }
        for lane in lanes {
            guard let hold = lane.inspect({ $0.untoldHold(now: clock.now()) }) else { continue }
            // If that fails, the next refresh publishes it; other handlers' pauses are published now.
            let told: Void? = await shared.once { () async throws(StoreError) in
                try await shared.store.hold(lane.settings.name, hold)
            }
            if told != nil { lane.withMachine(wake: 0) { $0.holdTold(hold) } }
        }
        for lane in lanes {
            guard let isOpen = lane.inspect(\.untoldCircuit) else { continue }
            let told = await shared.once { () async throws(StoreError) in
                try await shared.store.changeCircuit(lane.settings.name, isOpen: isOpen)
            }
            if let change = told ?? nil { lane.withMachine(wake: 0) { $0.circuitTold(change) } }
        }
    }

    private func take(_ control: HandlerControl, _ now: ContinuousClock.Instant, _ lane: DispatchLane) {
        let (released, changes) = lane.withMachine(wake: 0) { $0.adopt(control, now: now) }
        guard !changes.isEmpty else { return }
        for change in changes { lane.report.changed(change) }
        lane.release(released)
        // Wakes slots that waited for the breaker.
        lane.withMachine { _ in }
        lane.claims.set()
    }

    func pause(_ lane: DispatchLane, for failure: HandlerFailure) async {
        lane.report.paused()
        _ = await shared.untilDone { () async throws(StoreError) in
            // Not in its own words: they may quote the message, which `last_error` alone may.
            try await shared.store.pause(lane.settings.name, reason: failure.logText)
        }
    }

    func watchLoop() async {
        defer {
            progress.enter(.idle)
            shared.report.letters.logDue(nil)
        }
        while (try? await clock.sleep(.milliseconds(250))) != nil {
            progress.enter(.working)
            for lane in lanes {
                lane.report.show(lane.activity)
                lane.settler.unpackOld()
            }
            shared.report.letters.logDue(.now)
            // What no settlement writes soon: the database may be away.
            shared.flush()
            for lane in lanes {
                let now = clock.now()
                lane.cancel(lane.withMachine(wake: 0) { $0.overdue(now: now) })
            }
            // Handlers that block every thread of the tasks delay the next step, which is not this loop's fault.
            progress.enter(.idle)
        }
    }

    func heartbeatLoop(_ lane: DispatchLane) async {
        let lease = shared.settings.lease
        var hanging = 0
        while (try? await clock.sleep(shared.settings.heartbeat)) != nil {
            let now = clock.now()
            let count = lane.inspect { $0.hanging(now: now) }
            if count > hanging { lane.report.hanging(count) }
            hanging = count
            let leases = lane.inspect { $0.leasesToExtend(now: now) }
            guard !leases.isEmpty else { continue }
            let held = await shared.once { () async throws(StoreError) in
                try await shared.store.extend(leases, of: lane.settings.name, by: lease)
            }
            guard let held else { continue }
            lane.cancel(lane.withMachine(wake: 0) { $0.extended(leases, held: held, until: now + lease) })
        }
    }

    func statisticsLoop() async {
        var told: Set<String> = []
        let names = lanes.map(\.settings.name)
        // What a long transaction keeps from being vacuumed is counted past each time: a twentieth of the time at most.
        var next = clock.now()
        repeat {
            _ = await shared.once { () async throws(StoreError) in
                try await shared.store.keep(names)
                let begin = clock.now()
                guard begin >= next else { return }
                defer { next = clock.now() + (clock.now() - begin) * 19 }
                for backlog in try await shared.store.backlog(names) {
                    lanes.first { $0.settings.name == backlog.handler }?.report.backlog(backlog)
                }
                for name in try await shared.store.unclaimed() where told.insert(name).inserted {
                    shared.report.unclaimed(name)
                }
            }
        } while (try? await clock.sleep(shared.settings.statistics)) != nil
    }

    func listenLoop() async {
        var isTold = false
        var attempt = 0
        while !Task.isCancelled {
            do throws(StoreError) {
                try await shared.store.listen { self.wakeClaims() }
                if !isTold { shared.report.notificationsUnavailable() }
                isTold = true
                // By then the connection may lead to another server or pooler.
                guard (try? await clock.sleep(.seconds(600))) != nil else { return }
                attempt = 0
            } catch {
                guard !Task.isCancelled else { return }
                shared.report.storeFailed(error, isFirst: false)
                attempt += 1
                guard await shared.pause(attempt) else { return }
            }
        }
    }
}

// The slots that run attempts, and their end.
extension DispatchService {
    private enum SlotEvent {
        case slotEnded
        case shutdownBegan
        case drainEnded
    }

    func runSlots() async {
        await withTaskGroup(of: SlotEvent.self) { group in
            var slots = 0
            for lane in lanes {
                for _ in 0..<lane.settings.slots {
                    slots += 1
                    group.addTask {
                        await lane.work { await self.pause(lane, for: $0) }
                        return .slotEnded
                    }
                }
            }
            // A cancelled claim may leave rows leased without our knowledge, so claims end as slots do.
            for lane in lanes {
                slots += 1
                group.addTask {
                    await self.claimLoop(lane)
                    return .slotEnded
                }
            }
            group.addTask {
                _ = await self.shutdown.wait()
                return .shutdownBegan
            }
            for await event in group {
                switch event {
                case .slotEnded: slots -= 1
                case .shutdownBegan:
                    for lane in lanes {
                        lane.release(lane.withMachine { $0.stop() }, isUrgent: true)
                        // Afterwards, so that a last pass claims nothing.
                        lane.claims.finish()
                    }
                    group.addTask {
                        try? await self.clock.sleep(self.shared.settings.drain)
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

    /// Gives cancelled attempts up to a second to end, then releases their leases.
    private func giveUp(_ lane: DispatchLane) async {
        for _ in 0..<20 {
            if lane.inspect({ $0.isIdle }) { return }
            do { try await clock.sleep(.milliseconds(50)) } catch { break }
        }
        lane.release(lane.withMachine { $0.abandon() }, isUrgent: true)
    }
}
