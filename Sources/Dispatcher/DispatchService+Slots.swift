import Vocabulary

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
                        await lane.work(settler: self.settler) { await self.pause(lane, for: $0) }
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
                        lane.claims.finish()
                        let released = lane.withMachine { $0.stop() }
                        report.settledUnrun(released, lane.index)
                        settler.submit(released, lane: lane.index, isUrgent: true)
                    }
                    group.addTask {
                        try? await self.clock.sleep(self.settings.drain)
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
        let released = lane.withMachine { $0.abandon() }
        report.settledUnrun(released, lane.index)
        settler.submit(released, lane: lane.index, isUrgent: true)
    }
}
