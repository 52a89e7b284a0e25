import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

/// An ack is a promise that survives failover (G1, G5), on two real servers with synchronous replication.
///
/// Two workers run for the whole of it, one with the servers' addresses and one with those of a pgbouncer before each,
/// while their peers send new messages, duplicates, conflicts, what belongs into quarantine, and lost connections' copies
/// again. One fault comes after the other. At the end of each: every ack is found on the server that is the primary then,
/// nothing came twice, nothing was blamed, and everything sent was acked.
@Suite(.serialized) struct FailoverTests {
    @Test("whatever was acked is on the new primary, whatever fails and in whatever order")
    func everyFault() async throws {
        let pair = try await Pair.start()
        let proxies = [
            try await TCPProxy.start(to: pair.poolers[0].socketPath),
            try await TCPProxy.start(to: pair.poolers[1].socketPath),
        ]
        func hosts(_ ports: [Int]) -> String { ports.map { "127.0.0.1:\($0)" }.joined(separator: ",") }
        let ways = [
            try await Way(Pair.databases[0], hosts: hosts(pair.nodes.map(\.direct.port))),
            try await Way(Pair.databases[1], hosts: hosts(proxies.map(\.port))),
        ]
        var rounds: [Round] = []
        for (number, fault) in Self.chosen.enumerated() {
            var round = Round(fault: fault, number: number)
            do {
                try await round.run(pair, ways)
            } catch {
                Issue.record("\(fault): \(error)")
                break
            }
            print(round.line)
            rounds.append(round)
        }
        print(Round.table(rounds))
        for way in ways { await way.peer.pause() }
        for way in ways where !way.isOut {
            #expect(try await way.stop() == 0, "\(way.name)")
            print("\(way.name): \(way.resets) of its connections were reset under load")
        }
        for way in ways where !way.isOut {
            let tally = await way.peer.emulator.stop()
            #expect(tally.isClean, "\(way.name): \(tally.summary)")
            // Over all failovers, there and back.
            let counts = try await pair.nodes[pair.primary].cluster.texts(
                "SELECT count(*) || ' ' || count(DISTINCT message_id) FROM upstream.messages",
                in: way.name
            )
            #expect(counts == ["\(way.messages) \(way.messages)"], "\(way.name)")
        }
        for proxy in proxies { await proxy.stop() }
        await pair.stop()
    }

    /// Every fault, or those alone that the variable `FAILOVER_FAULTS` names a part of: for work on one of them.
    private static var chosen: [Fault] {
        let part = ProcessInfo.processInfo.environment["FAILOVER_FAULTS"] ?? ""
        return Fault.all.filter { part.isEmpty || $0.name.contains(part) }
    }
}
