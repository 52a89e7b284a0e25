import Vocabulary

/// Writes settlements to the table, separately for each handler, so that none waits for another's locks.
final class DispatchSettler: Sendable {
    private let lanes: [LaneSettler]

    /// Makes a settler with one lane per handler.
    ///
    /// `willSettle` is called, and waited for, before settlements are sent; `settled` with the lane once they have
    /// committed.
    init(
        handlers: [String],
        store: any DeliveryStore,
        settings: DispatchSettings,
        clock: TimeSource,
        report: DispatchReport,
        willSettle: @escaping @Sendable () -> Void,
        settled: @escaping @Sendable (Int) -> Void
    ) {
        lanes = handlers.enumerated().map { index, handler in
            LaneSettler(
                index,
                handler: handler,
                store: store,
                settings: settings,
                clock: clock,
                report: report,
                willSettle: willSettle,
                settled: { settled(index) }
            )
        }
    }

    var isEmpty: Bool { lanes.allSatisfy(\.isEmpty) }

    /// Takes settlements; never blocks.
    ///
    /// `isUrgent` if others wait for the outcome: the batch is then written without lingering for more.
    func submit(_ settlements: [Settlement], lane: Int, isUrgent: Bool = false) {
        guard !settlements.isEmpty else { return }
        lanes[lane].submit(settlements, isUrgent: isUrgent)
    }

    /// Takes an attempt's settlement, and others.
    func submit(_ settlement: Settlement, _ others: [Settlement], lane: Int, isUrgent: Bool) {
        lanes[lane].submit(CollectionOfOne(settlement), isUrgent: isUrgent)
        submit(others, lane: lane, isUrgent: isUrgent)
    }

    // MARK: Blocks

    /// Records a committed block: `count` deliveries with its number will be submitted.
    func open(block: Int64, token: Int64, count: Int, lane: Int) {
        lanes[lane].open(block: block, token: token, count: count)
    }

    /// Abandons a block that may have committed, and that nobody here will run as such.
    func abandon(block: Int64, token: Int64, lane: Int) { lanes[lane].abandon(block: block, token: token) }

    /// Unpacks blocks that have been open for too long, so that a crash repeats little.
    func unpackOld() {
        for lane in lanes { lane.unpackOld() }
    }

    /// Waits while the lane's backlog is at the high-water mark.
    func waitForRoom(_ lane: Int) async { await lanes[lane].waitForRoom() }

    /// Announces that nothing more will be submitted: ``run()`` ends once all is settled.
    func finish() {
        for lane in lanes { lane.finish() }
    }

    /// Settles until finished, or until cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            for lane in lanes {
                group.addTask { await lane.run() }
            }
        }
    }
}
