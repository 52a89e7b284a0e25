import Foundation
import IntegrationSupport
import Probing
import Telemetry
import Testing
import UpstreamConfiguration
import Vocabulary
import Worker

extension Integration {
    /// The worker on an ordinary XMPP server (Prosody), with another account in the CCS's part.
    @Suite struct StandardServerTests {
        private static func ids(_ range: ClosedRange<Int>) -> [String] { range.map { "m\($0)" } }

        private static func withWorker(_ yaml: String, _ body: (LocalWorker) async throws -> Void) async throws {
            let worker = try LocalWorker(yaml: yaml)
            do {
                try await body(worker)
            } catch {
                await worker.abandon()
                FileHandle.standardError.write(Data(worker.logs.lines.suffix(15).joined().utf8))
                throw error
            }
            try await worker.stop()
        }

        private static func waitUntilBound(_ worker: LocalWorker) async throws {
            try await waitUntil("the stream is bound") { worker.isLoggedIn }
        }

        @Test(
            "messages to our bare address are stored once and acked to who sent them, over either kind of TLS",
            arguments: [("direct", "SCRAM-SHA-256"), ("starttls", "SCRAM-SHA-1"), ("direct", "PLAIN")]
        )
        func receiveAndAck(_ mode: String, _ mechanism: String) async throws {
            try await Prosody.run(Prosody.Options(mechanisms: [mechanism])) { server, sender, database in
                let yaml = try server.yaml(database, mode: mode, allowPlain: mechanism == "PLAIN")
                try await Self.withWorker(yaml) { worker in
                    try await Self.waitUntilBound(worker)
                    let ids = Self.ids(1...50)
                    try sender.send(ids)
                    try await waitUntil("every message is acked") { sender.acks.count >= ids.count }
                    #expect(sender.acks.sorted() == ids.sorted() && sender.errors.isEmpty)
                    #expect(try await database.count("messages") == ids.count)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                    #expect(server.log.contains("Enabling stream management"))
                    #expect(!worker.logs.lines.contains { $0.contains("stream.unmanaged") })
                    #expect(worker.metrics.stanzas[.untrusted].value == 0)
                }
                // Nothing of it waits for a next connection.
                #expect(!server.log.contains("unacked stanzas"))
            }
        }

        @Test("a wrong password is refused, and the log names the fix")
        func wrongPassword() async throws {
            try await Prosody.run { server, _, database in
                try await Self.withWorker(try server.yaml(database, secret: "FAKE-wrong")) { worker in
                    try await waitUntil("the worker is refused") {
                        worker.metrics.reconnects[.authenticationFailed].value >= 1
                    }
                    let line = try #require(worker.logs.lines.first { $0.contains("stream.sasl_refused") })
                    #expect(line.contains("secret_file") && !line.contains("FAKE-wrong"))
                }
            }
        }

        @Test("what is sent while the worker is down waits on the server and is stored and acked later")
        func offlineStorage() async throws {
            try await Prosody.run { server, sender, database in
                let ids = Self.ids(1...40)
                try sender.send(ids)
                try await waitUntil("the server has stored them") {
                    server.log.split(separator: "\n").count { $0.contains("Saved to offline storage") } >= ids.count
                }
                try await Self.withWorker(try server.yaml(database)) { worker in
                    try await waitUntil("every message is acked") { sender.acks.count >= ids.count }
                    #expect(worker.settled(.stored) == ids.count)
                }
                #expect(sender.acks.sorted() == ids.sorted())
                #expect(try await database.count("messages") == ids.count)
            }
        }

        @Test(
            "kill -9 with messages received and not committed: none is lost; without stream management all of them are",
            arguments: [true, false]
        )
        func killedBeforeTheCommit(_ management: Bool) async throws {
            try await Prosody.run(Prosody.Options(management: management)) { server, sender, database in
                let yaml = try server.yaml(database)
                let ids = Self.ids(1...40)
                try await database.withLockedLedger {
                    let first = try ChildWorker(yaml: yaml, in: server.scratch)
                    try await first.waitForEvent("stream.bound")
                    try sender.send(ids)
                    try await waitUntil("messages are in flight") {
                        try await first.scrape().sum("upstream_messages_in_flight") == Double(ids.count)
                    }
                    #expect(try first.events("stream.unmanaged").count == (management ? 0 : 1))
                    first.send(SIGKILL)
                    #expect(try await first.exitCode() == -SIGKILL)
                    // Nothing that the dead worker has begun may commit once the lock is gone.
                    try await database.endWaitingSessions()
                }
                try await database.waitUntilAbandoned()
                #expect(try await database.count("messages") == 0)
                #expect(sender.acks.isEmpty)

                let second = try ChildWorker(yaml: yaml, in: server.scratch)
                try await second.waitForEvent("stream.bound")
                try sender.send(["last"])
                try await waitUntil("what was sent last is acked") { sender.acks.contains("last") }
                if management {
                    try await waitUntil("every message is acked") { sender.acks.count >= ids.count + 1 }
                    #expect(try await database.count("messages") == ids.count + 1)
                } else {
                    // The server wrote them to the socket and forgot them: which shows that this test can fail.
                    #expect(try await database.count("messages") == 1)
                    #expect(sender.acks == ["last"])
                }
                // Nor does the server tell the sender of any loss.
                #expect(sender.errors.isEmpty)
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
            }
        }

        @Test("SIGTERM under load: what was committed is answered for, so nothing of it comes again")
        func termination() async throws {
            try await Prosody.run { server, sender, database in
                let yaml = try server.yaml(database)
                let first = try ChildWorker(yaml: yaml, in: server.scratch)
                try await first.waitForEvent("stream.bound")
                let ids = Self.ids(1...400)
                try sender.send(ids)
                try await waitUntil("some acks") { sender.acks.count >= 50 }
                first.send(SIGTERM)
                #expect(try await first.exitCode() == 0)
                let committed = try await database.count("messages")

                let second = try ChildWorker(yaml: yaml, in: server.scratch)
                try await waitUntil("every message is acked") { Set(sender.acks).count == ids.count }
                let books = try await second.scrape()
                #expect(books.sum("upstream_messages_total", "outcome=\"duplicate\"") == 0)
                #expect(books.sum("upstream_messages_total", "outcome=\"stored\"") == Double(ids.count - committed))
                #expect(books.received == books.accountedFor)
                #expect(sender.acks.count == ids.count && sender.errors.isEmpty)
                #expect(try await database.count("messages") == ids.count)
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
            }
        }

        @Test(
            "a database that can't commit for long: the server stores what comes, and sends it when all is well again"
        )
        func withdrawal() async throws {
            try await Prosody.run { server, sender, database in
                try await Self.withWorker(try server.yaml(database, window: 8)) { worker in
                    try await Self.waitUntilBound(worker)
                    let ids = Self.ids(1...60)
                    try await database.withLockedLedger {
                        try sender.send(ids.prefix(30))
                        try await waitUntil("reading is paused and the server knows") {
                            server.log.split(separator: "\n").contains {
                                $0.contains("Received[c2s]: <presence ") && $0.contains("type='unavailable'")
                            }
                        }
                        try sender.send(ids.suffix(30))
                        try await waitUntil("the server has stored the rest") {
                            server.log.split(separator: "\n").count { $0.contains("Saved to offline storage") } >= 30
                        }
                        #expect(sender.acks.isEmpty)
                    }
                    try await waitUntil("every message is acked") { sender.acks.count >= ids.count }
                    #expect(sender.acks.sorted() == ids.sorted() && sender.errors.isEmpty)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
            }
        }

        @Test("check --connect says what a server without stream management means", arguments: [true, false])
        func checkConnect(_ management: Bool) async throws {
            try await Prosody.run(Prosody.Options(management: management)) { server, _, database in
                let yaml = try server.yaml(database)
                let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "t.yaml")
                    .configuration
                let outcomes = await ProbeSequence.sender(configuration, index: 0).run()
                guard case .passed(let detail)? = outcomes.first?.result else {
                    Issue.record("\(outcomes)")
                    return
                }
                #expect(
                    detail.contains("XEP-0198") == !management && detail.contains("smacks") == !management,
                    "\(detail)"
                )
            }
        }

        @Test(
            "stanzas of a stranger that are too wide, too deep or hard to read stop nobody's messages, offline or online"
        )
        func hostileStranger() async throws {
            let hostile = [
                "<x xmlns='urn:x' " + (0..<70).map { "a\($0)='' " }.joined() + "/>",
                "<x xmlns='urn:x'>" + String(repeating: "<a>", count: 80) + String(repeating: "</a>", count: 80)
                    + "</x>",
                "<x xmlns='urn:x'>" + String(repeating: "<a/>", count: 5000) + "</x>",
                "<" + String(repeating: "n", count: 60_000) + " xmlns='urn:x'/>",
            ]
            try await Prosody.run { server, sender, database in
                let stranger = try await StandardSender.start(server, as: Prosody.stranger)
                let ids = Self.ids(1...20)
                func saved() -> Int {
                    server.log.split(separator: "\n").count { $0.contains("Saved to offline storage") }
                }
                for (number, content) in hostile.enumerated() {
                    try sender.send([ids[number]])
                    try await waitUntil("the server has stored a message") { saved() == 2 * number + 1 }
                    try stranger.send(content: content)
                    try await waitUntil("and a hostile one") { saved() == 2 * number + 2 }
                }
                try sender.send(ids[hostile.count..<10])
                try await Self.withWorker(try server.yaml(database)) { worker in
                    try await waitUntil("what was stored is acked") { sender.acks.count >= 10 }
                    for (number, content) in hostile.enumerated() {
                        try stranger.send(content: content)
                        try sender.send([ids[10 + number]])
                    }
                    try sender.send(ids[(10 + hostile.count)...])
                    try await waitUntil("every message is acked") { sender.acks.count >= ids.count }
                    #expect(sender.acks.sorted() == ids.sorted() && sender.errors.isEmpty && stranger.errors.isEmpty)
                    // The stranger's, and our own presence, which comes back.
                    try await waitUntil("all are counted") {
                        worker.metrics.stanzas[.other].value >= UInt64(2 * hostile.count + 1)
                    }
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
                // Nothing of it waits for a next connection.
                #expect(!server.log.contains("unacked stanzas"))
            }
        }

        @Test("an idle stream stays up: the server answers our pings")
        func keepalive() async throws {
            try await Prosody.run { server, _, database in
                let yaml = try server.yaml(database, keepalive: "{interval: 1s, timeout: 1s}")
                try await Self.withWorker(yaml) { worker in
                    try await Self.waitUntilBound(worker)
                    // Our own presence comes back, then an answer to each ping.
                    try await waitUntil("three answers") { worker.metrics.stanzas[.other].value >= 4 }
                    #expect(worker.metrics.connections(sender: 0, state: .bound).value == 1)
                    #expect(worker.metrics.reconnects[.pingTimeout].value == 0)
                    #expect(worker.metrics.stanzas[.error].value == 0)
                }
            }
        }
    }
}

extension Database {
    /// Ends what a killed worker has left waiting for the lock on the ledger.
    func endWaitingSessions() async throws {
        _ = try await integer(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
                + "WHERE datname = '\(name)' AND wait_event_type = 'Lock'"
        )
    }
}
