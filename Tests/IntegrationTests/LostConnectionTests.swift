import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// What a standard server does with the messages of a connection that is lost, half open, or taken over.
    @Suite struct LostConnectionTests {
        @Test(
            "a worker that hangs holds 100 messages, its connection half open: the next login gets all, none is returned",
            arguments: ServerKind.allCases
        )
        func halfOpen(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let yaml = try scenario.yaml()
                let ids = ServerScenario.ids(1...100)
                let first = try await scenario.database.withLockedLedger {
                    let first = try await scenario.startWorker(yaml)
                    try scenario.device.send(ids.prefix(50))
                    try await waitUntil("messages are in flight") {
                        try await first.scrape().sum("upstream_messages_in_flight") == 50
                    }
                    first.send(SIGSTOP)
                    try scenario.device.send(ids.suffix(50))
                    try await scenario.database.endWaitingSessions()
                    return first
                }
                let second = try await scenario.startWorker(yaml)
                try await scenario.waitForAcks(ids)
                #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
                // Awake again it finds that its resource is taken, and does not take it back in a hurry.
                first.send(SIGCONT)
                try await first.waitForEvent("stream.reconnect_scheduled")
                let delay = try first.events("stream.reconnect_scheduled").first?["duration_seconds"] as? Double
                #expect(try #require(delay) >= 5)
                first.send(SIGKILL)
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
                _ = try await first.exitCode()
                #expect(try await scenario.server.offlineMessages(scenario.account) == 0)
            }
        }

        @Test(
            "with `resume` a lost connection's session goes on: what committed meanwhile is acked, and nothing comes twice",
            arguments: ServerKind.allCases
        )
        func resumed(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let proxy = try await TCPProxy.start(toPort: scenario.server.ports.direct)
                let yaml = try scenario.yaml()
                    .replacing("port: \(scenario.server.ports.direct)", with: "port: \(proxy.port)")
                    .replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n    resume: 60s\n")
                let ids = ServerScenario.ids(1...80)
                try await scenario.withWorker(yaml) { worker in
                    try await scenario.database.withLockedLedger {
                        try scenario.device.send(ids.prefix(40))
                        try await waitUntil("messages are in flight") {
                            worker.metrics.messages.snapshot().inFlight == 40
                        }
                        proxy.cut()
                        try await waitUntil("the connection is lost") {
                            worker.metrics.connections(sender: 0, state: .bound).value == 0
                        }
                        // The session holds them.
                        try scenario.device.send(ids.suffix(40))
                    }
                    try await waitUntil("what came has committed") { worker.settled(.stored) == 40 }
                    proxy.restore()
                    try await scenario.waitForAcks(ids)
                    #expect(worker.logs.lines.contains { $0.contains("the session goes on") })
                    #expect(worker.settled(.duplicate) == 0 && worker.metrics.acks[.connectionGone].value == 0)
                    try await waitUntil("they are counted") { worker.metrics.acks[.sent].value == UInt64(ids.count) }
                }
                #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
                await proxy.stop()
            }
        }

        /// Prosody 0.12 resumes a session with the parser it had: what is sent then belongs to the half stanza in that.
        ///
        /// It answers nothing, or ends the stream. The acks that were to be sent again are lost; their devices send again.
        @Test("a connection that is lost inside an ack: a session that is resumed in vain is not resumed again")
        func deaf() async throws {
            try await ServerScenario.run(.prosody) { scenario in
                let proxy = try await TCPProxy.start(toPort: scenario.server.ports.direct)
                let yaml = try scenario.yaml()
                    .replacing("port: \(scenario.server.ports.direct)", with: "port: \(proxy.port)")
                    .replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n    resume: 60s\n")
                    .replacing(
                        "keepalive: {interval: 30s, timeout: 15s}",
                        with: "keepalive: {interval: 30s, timeout: 3s}"
                    )
                // Acks that fill several TLS records each time they are written.
                let ids = ServerScenario.ids(1...80).map { $0 + String(repeating: "x", count: 900) }
                try await scenario.withWorker(yaml) { worker in
                    try await scenario.database.withLockedLedger {
                        try scenario.device.send(ids)
                        try await waitUntil("messages are in flight") {
                            worker.metrics.messages.snapshot().inFlight == 80
                        }
                        proxy.cut(afterClientBytes: 40_000)
                    }
                    let bound = { worker.logs.lines.count { $0.contains("the stream is bound") } }
                    try await waitUntil("a new session is bound") { bound() == 2 }
                    #expect(worker.logs.lines.count { $0.contains("the session goes on") } == 1)
                    let lost = Set(ids).subtracting(scenario.device.acks).sorted()
                    #expect(!lost.isEmpty)
                    try scenario.device.send(lost + ["after"])
                    try await scenario.waitForAcks(ids + ["after"])
                    #expect(bound() == 2)
                }
                #expect(scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids + ["after"])
                await proxy.stop()
            }
        }

        @Test(
            "kill -9 of a worker whose session the server holds: its successor has the resource, and gets all at once",
            arguments: ServerKind.allCases
        )
        func killedWhileResumable(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let yaml = try scenario.yaml()
                    .replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n    resume: 10m\n")
                let ids = ServerScenario.ids(1...60)
                try await scenario.database.withLockedLedger {
                    let first = try await scenario.startWorker(yaml)
                    try scenario.device.send(ids.prefix(30))
                    try await waitUntil("messages are in flight") {
                        try await first.scrape().sum("upstream_messages_in_flight") == 30
                    }
                    first.send(SIGKILL)
                    #expect(try await first.exitCode() == -SIGKILL)
                    try scenario.device.send(ids.suffix(30))
                    try await scenario.database.endWaitingSessions()
                }
                let second = try await scenario.startWorker(yaml)
                try await scenario.waitForAcks(ids)
                #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
            }
        }

        @Test(
            "both sides count the same: after 1,000 acks, pings and presence the server's count is still believed",
            arguments: ServerKind.allCases
        )
        func counts(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let yaml = try scenario.yaml()
                    .replacing(
                        "keepalive: {interval: 30s, timeout: 15s}",
                        with: "keepalive: {interval: 1s, timeout: 60s}"
                    )
                try await scenario.withWorker(yaml) { worker in
                    let ids = ServerScenario.ids(1...1_000)
                    try scenario.device.send(ids)
                    try await scenario.waitForAcks(ids)
                    // Our presence, taken back and given once more, comes back; and an answer to each ping.
                    try await waitUntil("presence is given once more") { worker.metrics.stanzas[.other].value >= 8 }
                    try scenario.device.send(["last"])
                    try await scenario.waitForAcks(["last"])
                    #expect(ReconnectReason.allCases.filter { worker.metrics.reconnects[$0].value > 0 } == [])
                    try await waitUntil("they are counted") { worker.metrics.acks[.sent].value == 1_001 }
                    #expect(worker.settled(.duplicate) == 0)
                }
            }
        }

        @Test(
            "two workers of one account take the resource from each other slowly, and nothing is lost",
            arguments: ServerKind.allCases
        )
        func rivals(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let first = try await scenario.startWorker()
                let second = try await scenario.startWorker()
                let ids = ServerScenario.ids(1...300)
                try scenario.device.send(ids.prefix(150))
                // The first backs off from 5 s, and then takes the resource back.
                try await first.waitForEvent("stream.bound", count: 2)
                try scenario.device.send(ids.suffix(150))
                try await scenario.waitForAcks(ids)
                #expect(scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
                for worker in [first, second] {
                    let delays = try worker.events("stream.reconnect_scheduled")
                        .compactMap { $0["duration_seconds"] as? Double }
                    #expect(delays.allSatisfy { $0 >= 5 }, "\(delays)")
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
            }
        }

        @Test("h never passes the first message that has not committed, as the server's log shows")
        func transcript() async throws {
            try await StandardServer.run(.prosody) { server, device, database in
                /// The counts that the worker has told, in their order.
                func told() -> [Int] {
                    server.log.matches(of: /Received\[c2s\]: <a [^>]*h='(\d+)'/).compactMap { Int($0.output.1) }
                }
                let worker = try LocalWorker(yaml: server.yaml(database))
                do {
                    let ids = ServerScenario.ids(1...40)
                    try await database.withLockedLedger {
                        try device.send(ids)
                        try await waitUntil("messages are in flight") {
                            worker.metrics.messages.snapshot().inFlight == ids.count
                        }
                        // The server asks behind messages, again until none is new to it: it was answered after the last.
                        try await waitUntil("the server was answered") {
                            let log = server.log
                            guard let last = log.ranges(of: "Sending[c2s]: <message ").last,
                                let question = log[last.upperBound...].firstRange(of: "Sending[c2s]: <r ")
                            else { return false }
                            return log[question.upperBound...].contains("Received[c2s]: <a ")
                        }
                        // Our presence came back before them, at most three times.
                        #expect(told().max() ?? .max <= 3)
                    }
                    try await waitUntil("all is answered for") { told().last ?? 0 > ids.count }
                    #expect(told() == told().sorted())
                    try await waitUntil("every message is acked") { device.acks.count == ids.count }
                } catch {
                    await worker.abandon()
                    throw error
                }
                try await worker.stop()
            }
        }
    }
}
