import CCSEmulator
import IntegrationSupport
import LocalDatabase
import NIOCore
import Testing

/// One fault from the load before it to the proof after it.
struct Round {
    /// What goes wrong.
    let fault: Fault
    /// Its place, which makes the ids of its messages its own.
    let number: Int
    /// What each way's worker did, in the ways' order.
    private(set) var results: [Result] = []
    /// How long all of it took.
    private var duration = Duration.zero

    /// What came of it on one way.
    struct Result {
        /// Messages acked.
        var acked = 0
        /// From the first commit that was possible to the first ack; nil where none came.
        var resumed: Duration?
        /// Acked and not there.
        var lost = 0
    }

    init(fault: Fault, number: Int) {
        self.fault = fault
        self.number = number
    }

    private var prefix: String { "f\(number)" }
    /// What turns "never" into a failure: nothing takes nearly as long.
    private static let limit = Duration.seconds(30)

    /// Runs it on both ways at once.
    mutating func run(_ pair: Pair, _ all: [Way]) async throws {
        results = all.map { _ in Result() }
        let start = ContinuousClock.now
        defer { duration = .now - start }
        var ways = all.filter { !$0.isOut }
        for way in ways { await way.peer.begin(prefix) }
        for way in ways { try await expectAcks(way) }
        ways.removeAll(where: \.isOut)
        for step in fault.steps { try await perform(step, pair, ways) }
        try await expectStandbyHolds(pair, ways)

        let begun = ContinuousClock.now
        let target = pair.nodes[fault.resolution == .promote ? pair.standby : pair.primary].cluster
        async let first = target.firstCommit(limit: Self.limit)
        try await perform(fault.resolution, pair, ways)
        let possible = max(try await first, begun)
        for step in fault.aftermath { try await perform(step, pair, ways) }
        for (index, way) in all.enumerated() where !way.isOut {
            results[index].resumed = try await resumption(of: way, begun: begun, possible: possible)
        }
        for way in ways { await way.peer.pause() }
        for (index, way) in all.enumerated() where !way.isOut { try await finish(index, way, pair) }
        fault.failsOver ? try await pair.reseed() : try await pair.waitUntilReplicated()
    }

    private func expectAcks(_ way: Way) async throws {
        do {
            try await waitUntil("\(way.name): acks before the fault", limit: Self.limit) {
                try await way.peer.current().ackedMessages.count >= 40
            }
        } catch let error as WaitedTooLong {
            Issue.record("\(fault): \(error); it is left out from here on\n\(way.lastWords())")
            await way.peer.pause()
            await way.peer.emulator.stop()
            way.giveUp()
        }
    }

    private func perform(_ step: Fault.Step, _ pair: Pair, _ ways: [Way]) async throws {
        switch step {
        case .resetPeer:
            for way in ways where try await way.peer.reset() { way.resets += 1 }
        case .commitsWait:
            for way in ways {
                do {
                    try await waitUntil("\(way.name): commits wait", limit: .seconds(90)) {
                        try await pair.waiting(in: way.name) > 0
                    }
                } catch let error as WaitedTooLong {
                    Issue.record("\(fault): \(error)\n\(way.lastWords())")
                }
            }
        case .fillPool:
            // Before: it is full only once the statements have been given up that have a connection.
            for way in ways { way.noteGivenUp() }
            try await pair.perform(step)
        case .statementsGivenUp:
            for way in ways where way.name == Pair.databases[1] {
                try await waitUntil("\(way.name): a statement is given up") { way.hasGivenUp }
            }
        case .passLimit:
            // The worker gives a statement 30 s, and a second more where the server should have ended it.
            let end = ContinuousClock.now + .seconds(33)
            try await waitUntil("the worker's limit is over") { ContinuousClock.now >= end }
        case .cancel, .terminate, .killBackend, .restartPrimary, .breakClients:
            // Before: what waits already is not what is waited for next.
            pair.noteFault()
            try await pair.perform(step)
        default:
            // Nothing waits yet; a statement on its way will.
            pair.noteFault(at: nil)
            try await pair.perform(step)
        }
    }

    /// While the old primary can't have anything confirmed, every ack given so far must be on the standby.
    private func expectStandbyHolds(_ pair: Pair, _ ways: [Way]) async throws {
        // Promoted already, or not running: the end of the round judges.
        let cluster = pair.nodes[pair.standby].cluster
        guard !fault.steps.contains(where: { $0 == .promote }), cluster.processID != nil else { return }
        var accounts: [Peer.Account] = []
        for way in ways { accounts.append(try await way.peer.current()) }
        try await waitUntil("the standby shows what it has received") {
            try await cluster.texts(
                "SELECT coalesce(pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn(), true)::text",
                in: "upstream"
            ) == ["true"]
        }
        for (way, account) in zip(ways, accounts) {
            let lost = try await way.holding(of: cluster, prefix).missing(account)
            #expect(lost.isEmpty, "\(fault), \(way.name): \(lost.count) acked that the standby never got")
        }
    }

    /// How long after the first possible commit the first ack came.
    private func resumption(
        of way: Way,
        begun: ContinuousClock.Instant,
        possible: ContinuousClock.Instant
    ) async throws -> Duration? {
        var first: ContinuousClock.Instant?
        do {
            try await waitUntil("\(way.name): acks go on", limit: Self.limit) {
                first = try await way.peer.current().times.first { $0 >= begun }
                return first != nil
            }
        } catch let error as WaitedTooLong {
            Issue.record("\(fault): \(error)\n\(way.lastWords())")
        }
        return first.map { max(.zero, $0 - possible) }
    }

    /// Waits for the last ack, and compares.
    private mutating func finish(_ index: Int, _ way: Way, _ pair: Pair) async throws {
        do {
            try await way.peer.emulator.waitUntilComplete(limit: .seconds(90))
        } catch {
            Issue.record("\(fault), \(way.name): not everything is acked: \(error)\n\(way.lastWords())")
            try way.replaceWorker()
            do {
                try await way.peer.emulator.waitUntilComplete(limit: .seconds(90))
            } catch {
                Issue.record("\(fault), \(way.name): nor by another worker; it is left out from here on")
                await way.peer.emulator.stop()
                return way.giveUp()
            }
        }
        let account = try await way.peer.current()
        let holding = try await way.holding(of: pair.nodes[pair.primary].cluster, prefix)
        let lost = holding.missing(account)
        results[index].acked = account.ackedMessages.count
        results[index].lost = lost.count
        way.messages += account.sentMessages.count
        let place: Comment = "\(fault), \(way.name)"
        #expect(lost.isEmpty, "\(place): acked and lost: \(lost.prefix(5))")
        #expect(account.ackedMessages == account.sentMessages, place)
        #expect(account.ackedOddities == account.sentOddities, place)
        #expect(holding.messages.count == Set(holding.messages).count, "\(place): one message twice")
        #expect(Set(holding.messages).isSubset(of: account.sentMessages), place)
        #expect(Set(holding.oddities) == account.sentOddities, "\(place): blamed for the outage")
        #expect(holding.oddities.count == account.sentOddities.count, "\(place): one oddity twice")
        #expect(holding.conflicts.count == Set(holding.conflicts).count, "\(place): one conflict twice")
        #expect(Set(holding.conflicts).isSubset(of: account.sentConflicts), place)
    }

    // MARK: the table

    /// What came of every fault, for people.
    static func table(_ rounds: [Round]) -> String {
        let head = "from the first possible commit to the first ack; messages acked and lost"
        let columns = ["direct", "acked", "lost", "pgbouncer", "acked", "lost", "took"]
        let lines = [row(head, columns)] + rounds.map(\.line)
        return lines.joined(separator: "\n")
    }

    /// Its line of the table.
    var line: String {
        Self.row(
            fault.name,
            results.flatMap { result in
                let time = result.resumed.map { "\(Int(($0 / .milliseconds(1)).rounded())) ms" } ?? "never"
                return [time, "\(result.acked)", "\(result.lost)"]
            } + ["\(Int((duration / .seconds(1)).rounded())) s"]
        )
    }

    private static func row(_ name: String, _ cells: [String]) -> String {
        func space(_ text: String, _ width: Int) -> String { String(repeating: " ", count: max(1, width - text.count)) }
        return name + space(name, 76) + cells.map { space($0, 10) + $0 }.joined()
    }
}
