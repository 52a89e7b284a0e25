import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// Sessions that are replaced, half dead or waiting, on every standard server.
    @Suite struct ServerSessionTests {
        /// What the worker has acknowledged to the server (XEP-0198), as the server has logged it.
        private static func acknowledged(_ server: StandardServer) -> [Int] {
            server.log.split(separator: "\n").compactMap { line in
                switch server.kind {
                case .prosody:
                    guard line.contains("Received[c2s]: <a "), let h = line.firstMatch(of: /h='(\d+)'/) else {
                        return nil
                    }
                    return Int(h.1)
                case .ejabberd:
                    return line.firstMatch(of: /acknowledged (\d+) of \d+ stanzas/).flatMap { Int($0.1) }
                }
            }
        }

        @Test(
            "what is not committed is never acknowledged to the server, however often it asks",
            arguments: ServerKind.allCases
        )
        func uncommitted(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ServerOptions()) { scenario in
                let ids = ServerScenario.ids(1...80)
                try await scenario.withWorker(scenario.yaml(window: 1000)) { worker in
                    try scenario.device.send(ids.prefix(10))
                    try await scenario.waitForAcks(ids.prefix(10))
                    try await scenario.database.withLockedLedger {
                        let before = Self.acknowledged(scenario.server).count
                        for part in [ids[10..<60], ids[60...]] {
                            let asked = Self.acknowledged(scenario.server).count
                            try scenario.device.send(part)
                            // On a slow machine the worker has withdrawn its presence meanwhile.
                            var isKept = false
                            try await waitUntil("they are in flight, or the server keeps them") {
                                isKept = try await scenario.server.offlineMessages(scenario.account) > 0
                                return isKept || worker.inFlight >= part.endIndex - 10
                            }
                            try await waitUntil("the server has asked") {
                                isKept || Self.acknowledged(scenario.server).count > asked
                            }
                        }
                        let locked = Self.acknowledged(scenario.server)[before...]
                        // Ten messages, and what else has come: our own presence.
                        let limit = 10 + Int(worker.metrics.stanzas[.other].value)
                        #expect(locked.allSatisfy { $0 <= limit }, "\(locked) > \(limit)")
                    }
                    try await scenario.waitForAcks(ids)
                    try await waitUntil("all is acknowledged") {
                        (Self.acknowledged(scenario.server).last ?? 0) > ids.count
                    }
                }
                print("\(kind.rawValue): h was \(Self.acknowledged(scenario.server))")
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "a connection that is dead in silence: a worker that signs in beside it gets what that held, and nothing is returned",
            arguments: ServerKind.allCases
        )
        func halfOpen(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let device = scenario.device
                let proxy = try await TCPProxy.start(toPort: scenario.server.ports.direct)
                let ids = ServerScenario.ids(1...60)
                try await scenario.withWorker(scenario.yaml(port: proxy.port)) { first in
                    try device.send(ids.prefix(20))
                    try await scenario.waitForAcks(ids.prefix(20))
                    // Nothing of it is acked before the relay is silent.
                    try await scenario.database.withLockedLedger {
                        await proxy.stall()
                        try device.send(ids[20...])
                        // Nobody has this address: once it is returned, the server has taken all before it.
                        try device.send(
                            stanza: "<message to='nobody@\(StandardServer.domain)' id='marker'><body>x</body></message>"
                        )
                        try await waitUntil("the server has them") { device.errors == ["marker"] }
                    }
                    try await scenario.withWorker { second in
                        // ejabberd hands them over while the second signs in, and now and then loses one, or its ack. What the
                        // worker has acked, or never had, it is not to blame for; a device sends such a message again.
                        let isAcked = { Set(ids).isSubset(of: device.acks) }
                        if (try? await waitUntil("every message is acked", limit: .seconds(60), isAcked)) == nil {
                            let missing = Set(ids).subtracting(device.acks)
                            let had = second.settled(.stored) + second.settled(.duplicate)
                            let counts = """
                                \(missing): stored by the first \(first.settled(.stored)), by the second \
                                \(second.settled(.stored)), known to it \(second.settled(.duplicate)), acked by it \
                                \(second.metrics.acks[.sent].value), by the first \(first.metrics.acks[.sent].value)
                                """
                            try #require(
                                kind == .ejabberd && missing.count <= 2 && Int(second.metrics.acks[.sent].value) == had,
                                "\(counts)"
                            )
                            print("\(kind.rawValue) lost \(counts)")
                            try device.send(missing)
                            try await scenario.waitForAcks(ids)
                        }
                        #expect(first.settled(.stored) + second.settled(.stored) == ids.count)
                        #expect(second.settled(.stored) + second.settled(.duplicate) >= 40)
                    }
                    proxy.restore()
                }
                await proxy.stop()
                #expect(device.errors == ["marker"])
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "two workers with one resource: each login ends the other's session, not in a hurry, and nothing is lost or returned",
            arguments: ServerKind.allCases
        )
        func conflict(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let ids = ServerScenario.ids(1...90)
                try await scenario.withWorker { first in
                    try scenario.device.send(ids.prefix(30))
                    try await scenario.withWorker { second in
                        try scenario.device.send(ids[30..<60])
                        try await waitUntil("the first is told") {
                            first.logs.lines.contains { $0.contains("stream.error") && $0.contains("conflict") }
                        }
                        try await waitUntil("the second is told, when the first is back") {
                            second.logs.lines.contains { $0.contains("stream.error") && $0.contains("conflict") }
                        }
                        try scenario.device.send(ids[60...])
                        // ejabberd may lose what comes during a login (ADR 5), which a device sends again.
                        try await kind == .ejabberd
                            ? scenario.waitForAcks(ids, limit: .seconds(60), lossLimit: 2) : scenario.waitForAcks(ids)
                        #expect(first.settled(.stored) + second.settled(.stored) == ids.count)
                        // 5 s or more lie between a conflict and the next attempt.
                        #expect(first.metrics.reconnects[.streamError].value <= 5)
                    }
                }
                #expect(scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
            }
        }
    }
}
