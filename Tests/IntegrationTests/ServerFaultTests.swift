import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// Workers, servers and connections that end, on every standard server.
    @Suite struct ServerFaultTests {
        /// How often a worker is killed, and behind how many messages; `UPSTREAM_KILLS=20 UPSTREAM_KILL_MESSAGES=10000` asks for more.
        private static func size(_ name: String, _ usual: Int) -> Int {
            ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? usual
        }

        @Test(
            "a worker that is killed (-9) again and again under load: no message is lost, none is stored twice",
            arguments: ServerKind.allCases,
            Attachment.allCases
        )
        func kills(_ kind: ServerKind, _ attachment: Attachment) async throws {
            let kills = Self.size("UPSTREAM_KILLS", 3)
            let ids = ServerScenario.ids(1...Self.size("UPSTREAM_KILL_MESSAGES", 2000))
            let share = ids.count / (kills + 1)
            try await ServerScenario.run(kind, as: attachment) { scenario in
                let device = scenario.device
                var worker = try await scenario.startWorker()
                // Behind a component the device alone remembers what is not acked; behind an account it sends everything once.
                async let resending: Void =
                    attachment == .component
                    ? scenario.resendUntilAcked(ids, atOnce: 500, limit: .seconds(900)) : ()
                var unacked: [Int] = []
                for kill in 0..<kills {
                    if attachment == .account { try device.send(ids[kill * share..<(kill + 1) * share]) }
                    try await waitUntil("a part of the load is acked") {
                        Set(device.acks).count > kill * share + share / 10
                    }
                    worker.send(SIGKILL)
                    #expect(try await worker.exitCode() == -SIGKILL)
                    unacked.append(max(0, (kill + 1) * share - Set(device.acks).count))
                    worker = try await scenario.startWorker()
                }
                if attachment == .account {
                    try device.send(ids[(kills * share)...])
                    try await scenario.waitForAcks(
                        ids,
                        limit: .seconds(60 + ids.count / 50),
                        lossLimit: kind == .ejabberd ? 2 * kills : 0
                    )
                    #expect(device.errors.isEmpty)
                }
                try await resending
                try await scenario.expectStored(ids)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                print(
                    "\(kind.rawValue), \(attachment): \(kills) kills, \(ids.count) messages, "
                        + "\(try await scenario.database.count("messages")) stored, \(device.acks.count) acks, "
                        + "\(device.errors.count) errors; not acked at each kill: \(unacked)"
                )
            }
        }

        @Test("messages that never came are sent again up to a limit; beyond it, and for a stored one, the wait fails")
        func losses() async throws {
            try await ServerScenario.run(.ejabberd) { scenario in
                let ids = ServerScenario.ids(1...20)
                try await scenario.withWorker { _ in
                    try scenario.device.send(ids.dropLast(3))
                    try await scenario.waitForAcks(ids.dropLast(3))
                    func wait(_ ids: some Sequence<String>, lossLimit: Int) async {
                        await withKnownIssue {
                            try await scenario.waitForAcks(ids, limit: .milliseconds(50), lossLimit: lossLimit)
                        }
                    }
                    await wait(ids, lossLimit: 2)
                    // As if it had been stored and its ack were missing.
                    try await scenario.database.script(
                        "UPDATE upstream.messages SET message_id = 'other' WHERE message_id = 'm1'"
                    )
                    await wait(["m2", "other"], lossLimit: 5)
                    try await scenario.database.script(
                        "UPDATE upstream.messages SET message_id = 'm1' WHERE message_id = 'other'"
                    )
                    #expect(!scenario.device.acks.contains("m20"), "nothing was sent again")
                    try await scenario.waitForAcks(ids, limit: .milliseconds(50), lossLimit: 3)
                }
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "a server that shuts down or is killed with messages under way: the device resends what it has no ack for",
            arguments: ServerKind.allCases,
            [SIGTERM, SIGKILL]
        )
        func serverEnds(_ kind: ServerKind, _ signal: Int32) async throws {
            try await ServerScenario.run(kind, ownServer: true) { scenario in
                // ejabberd's Mnesia writes an account to the disk some seconds after it was made, or when it is shut down.
                try await scenario.server.stop(SIGTERM)
                try await scenario.server.start()
                let ids = ServerScenario.ids(1...120)
                let first = try await StandardSender.start(scenario.server, to: scenario.device.address)
                try await scenario.withWorker { worker in
                    try first.send(ids.prefix(60))
                    try await waitUntil("every message is acked") { first.acks.count == 60 }
                    try await scenario.database.withLockedLedger {
                        try first.send(ids[60..<100])
                        try await waitUntil("messages are in flight") { worker.inFlight == 40 }
                        try await scenario.server.stop(signal)
                        try await waitUntil("the stream has ended") {
                            worker.metrics.connections(sender: 0, state: .bound).value == 0
                        }
                    }
                    let before = worker.metrics.stanzas[.other].value
                    try await scenario.server.start()
                    try await waitUntil("the worker is back") { worker.metrics.stanzas[.other].value > before }
                    let second = try await StandardSender.start(scenario.server, to: scenario.device.address)
                    try second.send(ids.filter { !first.acks.contains($0) })
                    try await waitUntil("every message is acked") { Set(ids).isSubset(of: first.acks + second.acks) }
                    try await first.stop()
                    try await second.stop()
                }
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "a queue that overflows: Prosody loses the oldest silently, ejabberd returns all; resent, each is stored once",
            arguments: ServerKind.allCases
        )
        func overflow(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ServerOptions(queue: 20)) { scenario in
                let ids = ServerScenario.ids(1...60)
                try await scenario.database.withLockedLedger {
                    let worker = try await scenario.startWorker()
                    try scenario.device.send(ids)
                    switch kind {
                    case .prosody:
                        try await waitUntil("all are in flight") {
                            try await worker.scrape().sum("upstream_messages_in_flight") == Double(ids.count)
                        }
                    case .ejabberd:
                        try await waitUntil("the server has ended the session") {
                            scenario.device.errors.count > 20
                        }
                    }
                    worker.send(SIGKILL)
                    _ = try await worker.exitCode()
                    try await scenario.database.endWaitingSessions()
                }
                try await scenario.database.waitUntilAbandoned()
                try await scenario.withWorker { worker in
                    if kind == .prosody {
                        try await waitUntil("what was left is stored") { worker.settled(.stored) == 20 }
                        #expect(scenario.device.errors.isEmpty)
                    }
                    try await scenario.resendUntilAcked(ids, atOnce: 10)
                    if kind == .prosody { #expect(worker.settled(.stored) == 60 && worker.settled(.duplicate) == 0) }
                }
                try await scenario.expectStored(ids)
            }
        }

        /// `UPSTREAM_OUTAGE_SECONDS=60` asks for a longer outage.
        @Test(
            "a database outage under load: presence is withdrawn before the server's queue overflows, and all comes back",
            arguments: ServerKind.allCases
        )
        func databaseOutage(_ kind: ServerKind) async throws {
            let count = 200 * Self.size("UPSTREAM_OUTAGE_SECONDS", 3)
            // In Mnesia a long store takes too long to fetch.
            let queue = kind == .prosody ? 500 : max(500, 2 * count - 1_000)
            try await ServerScenario.run(kind, ServerOptions(queue: queue, verbose: false)) { scenario in
                let device = scenario.device
                let yaml = try scenario.yaml()
                    .replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n    server_queue: \(queue)\n")
                var worker = try await scenario.startWorker(yaml)
                try await scenario.database.withLockedLedger {
                    try device.load(count, rate: 200)
                    try await waitUntil("all is sent", limit: .seconds(120 + count / 100)) { device.isLoaded }
                    try await waitUntil("the server has stored the rest") {
                        let stored = try await scenario.server.offlineMessages(scenario.account)
                        return stored > count - queue && device.errors.isEmpty
                    }
                    #expect(try worker.events("stream.withdrawn").count == 1)
                    // What Prosody has lost shows once the connection has died.
                    if kind == .prosody {
                        worker.send(SIGKILL)
                        _ = try await worker.exitCode()
                        try await scenario.database.endWaitingSessions()
                    }
                }
                if kind == .prosody {
                    try await scenario.database.waitUntilAbandoned()
                    worker = try await scenario.startWorker(yaml)
                }
                let ids = ServerScenario.ids(1...count)
                try await scenario.waitForAcks(ids, limit: .seconds(60 + count / 100))
                #expect(device.errors.isEmpty)
                try await scenario.expectStored(ids)
                // The server removes what it had stored after the acks.
                try await waitUntil("the server's store is empty") {
                    try await scenario.server.offlineMessages(scenario.account) == 0
                }
                print(
                    "\(kind.rawValue): \(count) messages in an outage, \(try await scenario.database.count("messages")) stored"
                )
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test(
            "a changed password and a deleted account: the worker says so, goes on trying, and loses nothing",
            arguments: ServerKind.allCases
        )
        func refused(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ownServer: true) { scenario in
                try await scenario.withWorker { worker in
                    try scenario.device.send(["m1"])
                    try await scenario.waitForAcks(["m1"])
                    try await scenario.server.setPassword("FAKE-another", of: scenario.account)
                    try await scenario.server.endSession(of: scenario.account)
                    try await waitUntil("the worker is refused") {
                        worker.metrics.reconnects[.authenticationFailed].value >= 1
                    }
                    let line = try #require(worker.logs.lines.first { $0.contains("stream.sasl_refused") })
                    #expect(line.contains("secret_file") && !line.contains(StandardServer.secret))
                    let device = try await StandardSender.start(scenario.server, to: scenario.device.address)
                    try device.send(["m2"])
                    try await waitUntil("the server has stored it") {
                        try await scenario.server.offlineMessages(scenario.account) == 1
                    }
                    try await scenario.server.setPassword(StandardServer.secret, of: scenario.account)
                    try await waitUntil("it is acked") { device.acks.contains("m2") }
                    try await device.stop()
                }

                try await scenario.server.remove(scenario.account)
                try await scenario.withWorker(waits: false) { worker in
                    try await waitUntil("the worker is refused") {
                        worker.metrics.reconnects[.authenticationFailed].value >= 1
                    }
                    let device = try await StandardSender.start(scenario.server, to: scenario.device.address)
                    try device.send(["m3"])
                    try await waitUntil("the server returns it") { device.errors == ["m3"] }
                    try await scenario.server.register(scenario.account)
                    try await scenario.waitUntilPresent(worker)
                    try device.send(["m3"])
                    try await waitUntil("it is acked") { device.acks == ["m3"] }
                    try await device.stop()
                }
                try await scenario.expectStored(ServerScenario.ids(1...3))
            }
        }
    }
}
