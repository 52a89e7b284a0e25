import CCSEmulator
import Foundation
import Glibc
import IntegrationSupport
import NIOCore
import Testing

/// What an ack is worth where Patroni decides who the primary is (G1, G5): two servers in synchronous mode, two workers of
/// one sender, and load throughout.
@Suite(.serialized) struct PatroniTests {
    @Test("under Patroni nothing acked is lost and workers go on by themselves", .timeLimit(.minutes(5)))
    func everyFault() async throws {
        let cluster = try await PatroniCluster.start()
        defer { cluster.stop() }
        try await cluster.migrate()
        let peer = try await Peer()
        let folder = try TemporaryFolder()
        let yaml = try Way.yaml(cluster.url, peer, folder, connections: 2)
        let workers = try (0..<2).map { _ in try ChildWorker(yaml: yaml, in: folder) }
        try await peer.emulator.wait(for: "both workers' streams", limit: .seconds(60)) { $0.bound.count == 4 }
        var rounds: [PatroniRound] = []
        for (number, fault) in PatroniFault.allCases.enumerated() {
            var round = PatroniRound(fault: fault, number: number)
            do {
                try await round.run(cluster, peer)
            } catch {
                let logs = try workers.map { try $0.logText().split(separator: "\n").suffix(8).joined(separator: "\n") }
                let words = (0..<2).map(cluster.lastWords) + logs
                Issue.record("\(fault.rawValue): \(error)\n\(words.joined(separator: "\n\n"))")
                break
            }
            print(round.line)
            rounds.append(round)
        }
        await peer.pause()
        print(([PatroniRound.head] + rounds.map(\.line)).joined(separator: "\n"))
        for worker in workers {
            worker.send(SIGTERM)
            #expect(try await worker.exitCode() == 0)
        }
        let tally = await peer.emulator.stop()
        #expect(tally.isClean, "\(tally.summary)")
        let leader = try await cluster.waitUntilWhole()
        let sent = rounds.reduce(0) { $0 + $1.messages }
        let counts = "SELECT count(*) || ' ' || count(DISTINCT message_id) FROM upstream.messages"
        #expect(try await cluster.texts(counts, on: leader) == ["\(sent) \(sent)"])
    }
}

/// What goes wrong.
enum PatroniFault: String, CaseIterable {
    /// `patronictl switchover`.
    case switchover
    /// `kill -9` of the primary's postmaster; its Patroni starts it again.
    case postgres = "primary's PostgreSQL killed"
    /// `kill -9` of both, and both are started when the other has taken over.
    case node = "primary's PostgreSQL and Patroni killed"
    /// `kill -9` of Patroni alone: for a while both servers take writes.
    case patroni = "primary's Patroni killed, PostgreSQL left running"
    /// `kill -9` of the standby and its Patroni, strict: nothing is confirmed until it is back.
    case standby = "standby killed, strict"
    /// The same, not strict: the primary goes on alone.
    case standbyNotStrict = "standby killed, not strict"
}

/// One fault, from the load before it to the proof after it.
struct PatroniRound {
    let fault: PatroniFault
    let number: Int
    /// The longest time without an ack.
    private(set) var gap = Duration.zero
    /// Messages sent, each of which was acked in the end.
    private(set) var messages = 0
    private var acked = 0
    private var lost = 0
    private var took = Duration.zero

    init(fault: PatroniFault, number: Int) {
        self.fault = fault
        self.number = number
    }

    private var prefix: String { "p\(number)" }

    mutating func run(_ cluster: PatroniCluster, _ peer: Peer) async throws {
        let start = ContinuousClock.now
        let leader = try await cluster.waitUntilWhole()
        await peer.begin(prefix)
        try await expectAcks(peer, 40, since: start, "acks before the fault")
        let begun = ContinuousClock.now
        try await happen(cluster, leader)
        try await expectAcks(peer, 40, since: .now, "acks after it")
        await peer.pause()
        if fault == .standbyNotStrict { try await restoreStandby(cluster, leader) }
        let now = try await cluster.waitUntilWhole()
        let takesOver: Set<PatroniFault> = [.switchover, .node, .patroni]
        #expect((now != leader) == takesOver.contains(fault), "\(fault.rawValue): who leads")
        try await peer.emulator.waitUntilComplete(limit: .seconds(60))
        try await compare(cluster, now, peer, begun)
        took = .now - start
    }

    /// Makes it happen, and mends what does not mend itself.
    private func happen(_ cluster: PatroniCluster, _ leader: Int) async throws {
        let standby = 1 - leader
        switch fault {
        case .switchover: try await cluster.switchOver()
        case .postgres: try cluster.kill(leader, patroni: false, postgres: true)
        case .node:
            try cluster.kill(leader, patroni: true, postgres: true)
            try await waitUntilLeading(cluster, standby)
            try cluster.startPatroni(leader)
        case .patroni:
            try cluster.kill(leader, patroni: true, postgres: false)
            try await waitUntilLeading(cluster, standby)
            // Nobody has told the old primary. Whoever writes there waits for a standby that is none any more.
            for node in [leader, standby] {
                #expect(try await cluster.texts("SELECT pg_is_in_recovery()::text", on: node) == ["false"])
            }
            try await waitUntil("commits wait on the old primary") { try await isWaiting(cluster, leader) }
            try cluster.startPatroni(leader)
        case .standby:
            try cluster.kill(standby, patroni: true, postgres: true)
            try await waitUntil("commits wait") { try await isWaiting(cluster, leader) }
            try cluster.startPatroni(standby)
        case .standbyNotStrict:
            try cluster.setStrict(false)
            try cluster.kill(standby, patroni: true, postgres: true)
            try await waitUntil("the primary goes on alone") {
                try await cluster.texts("SHOW synchronous_standby_names", on: leader) == [""]
            }
        }
    }

    private func restoreStandby(_ cluster: PatroniCluster, _ leader: Int) async throws {
        try cluster.startPatroni(1 - leader)
        try await cluster.waitUntilWhole()
        try cluster.setStrict(true)
    }

    private func waitUntilLeading(_ cluster: PatroniCluster, _ node: Int) async throws {
        try await waitUntil("node\(node) leads", limit: .seconds(90)) {
            let isPrimary = try? await cluster.texts("SELECT pg_is_in_recovery()::text", on: node)
            return isPrimary == ["false"]
        }
    }

    private func isWaiting(_ cluster: PatroniCluster, _ node: Int) async throws -> Bool {
        let sql = """
            SELECT (count(*) > 0)::text FROM pg_stat_activity WHERE datname = 'upstream' AND wait_event = 'SyncRep'
            """
        return try await cluster.texts(sql, on: node) == ["true"]
    }

    private func expectAcks(
        _ peer: Peer,
        _ count: Int,
        since begun: ContinuousClock.Instant,
        _ what: String
    ) async throws {
        try await waitUntil("\(fault.rawValue): \(what)", limit: .seconds(90)) {
            try await peer.current().times.count { $0 > begun } >= count
        }
    }

    /// Every ack is found on the server that leads now, nothing twice and nothing blamed.
    private mutating func compare(
        _ cluster: PatroniCluster,
        _ leader: Int,
        _ peer: Peer,
        _ begun: ContinuousClock.Instant
    ) async throws {
        let account = try await peer.current()
        let holding = try await Holding.read(at: cluster.url(of: leader), prefix)
        let missing = holding.missing(account)
        (messages, acked, lost) = (account.sentMessages.count, account.ackedMessages.count, missing.count)
        let times = account.times.sorted()
        gap = zip(times, times.dropFirst()).filter { $1 >= begun }.map { $1 - $0 }.max() ?? .zero
        let place: Comment = "\(fault.rawValue)"
        #expect(missing.isEmpty, "\(place): acked and lost: \(missing.prefix(5))")
        #expect(account.ackedMessages == account.sentMessages, place)
        #expect(account.ackedOddities == account.sentOddities, place)
        #expect(holding.messages.count == Set(holding.messages).count, "\(place): one message twice")
        #expect(Set(holding.messages) == account.sentMessages, place)
        #expect(Set(holding.oddities) == account.sentOddities, "\(place): blamed for the outage")
        #expect(holding.oddities.count == account.sentOddities.count, "\(place): one oddity twice")
        #expect(Set(holding.conflicts).isSubset(of: account.sentConflicts), place)
    }

    // MARK: the table

    static let head = row("the longest time without an ack; messages acked and lost", ["gap", "acked", "lost", "took"])

    /// Its line of the table.
    var line: String {
        func text(_ duration: Duration) -> String { "\(Double(Int((duration / .milliseconds(100)).rounded())) / 10) s" }
        return Self.row(fault.rawValue, [text(gap), "\(acked)", "\(lost)", text(took)])
    }

    private static func row(_ name: String, _ cells: [String]) -> String {
        func space(_ text: String, _ width: Int) -> String { String(repeating: " ", count: max(1, width - text.count)) }
        return name + space(name, 56) + cells.map { space($0, 10) + $0 }.joined()
    }
}
