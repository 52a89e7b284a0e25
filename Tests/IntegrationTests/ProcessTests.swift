import CCSEmulator
import EmulatorSupport
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// The program as a process: its signals, its exit codes, its sudden death, and what it never says.
    @Suite struct ProcessTests {
        @Test(
            "kill -9 under load loses nothing and stores nothing twice; what was committed unacked counts as duplicate"
        )
        func killedWorker() async throws {
            let count = 5000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.rate = 2000
            } _: { stage in
                let (emulator, database) = (stage.emulator, stage.database)
                let yaml = try stage.yaml(WorkerOptions())
                let first = try ChildWorker(yaml: yaml, in: stage.folder)
                try await stage.wait(for: "some acks") { $0.tally.acked >= 1000 }
                first.send(SIGKILL)
                #expect(try await first.exitCode() == -SIGKILL)
                try await stage.wait(for: "the broken connections' end") {
                    $0.connections.isEmpty
                }
                try await database.waitUntilAbandoned()
                let acked = await emulator.tally().acked
                let committed = try await database.count("messages")
                #expect(acked < count && committed >= acked)

                let second = try ChildWorker(yaml: yaml, in: stage.folder)
                try await stage.waitUntilComplete()
                let tally = await emulator.tally()
                #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
                let books = try await second.scrape()
                #expect(books.received == books.accountedFor)
                #expect(books.sum("upstream_messages_total", "outcome=\"stored\"") == Double(count - committed))
                #expect(books.sum("upstream_messages_total", "outcome=\"duplicate\"") == Double(committed - acked))
                #expect(try await database.count("messages") == count)
                #expect(try await database.count("message_ids") == count)
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
            }
        }

        @Test(
            "SIGTERM and SIGINT under load: what was read is stored and acked, streams and TLS end in order, exit 0 (G7)",
            arguments: [SIGTERM, SIGINT]
        )
        func termination(_ signal: Int32) async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: nil)
                $0.load.connections = 2
                $0.load.rate = 2000
            } _: { stage in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await stage.wait(for: "some acks") { $0.tally.acked >= 1000 }
                worker.send(signal)
                #expect(try await worker.exitCode() == 0)
                // The process is gone: what it has not sent by now never comes.
                try await stage.wait(for: "the closing tag and close_notify of each stream") {
                    $0.connections.isEmpty && $0.tally.orderlyEnds == 2
                }
                let tally = await stage.emulator.tally()
                #expect(try await stage.database.count("messages") == tally.acked)
                #expect(tally.ackedCopies == tally.acked && tally.doubleAcks == 0 && tally.wrongConnectionAcks == 0)
                #expect(tally.brokenStreams == 0 && tally.streamErrors == 0, "\(tally.summary)")
                await stage.emulator.stop()
                let goodbyes = try stage.transcript().split(separator: "\n").count {
                    $0.contains(#""direction":"in""#) && $0.contains("stream:stream>")
                }
                #expect(goodbyes == 2)
                #expect(try worker.events("worker.stopped").count == 1)
            }
        }

        @Test("a second signal ends the program at once, with 128 and its number", arguments: [SIGTERM, SIGINT])
        func secondSignal(_ signal: Int32) async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 50)
            } _: { stage in
                try await stage.database.withLockedLedger {
                    let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                    try await waitUntil("messages are in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 50
                    }
                    worker.send(SIGTERM)
                    try await worker.waitForEvent("worker.draining")
                    worker.send(signal)
                    #expect(try await worker.exitCode() == 128 + signal)
                    #expect(try worker.events("worker.second_signal").count == 1)
                }
                #expect(await stage.emulator.tally().acked == 0)
            }
        }

        @Test("a database that can't commit at SIGTERM: exit 75 when the grace is over, and nothing was acked")
        func graceExpires() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 50)
            } _: { stage in
                try await stage.database.withLockedLedger {
                    let yaml = try stage.yaml(WorkerOptions(grace: "1s"))
                    let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                    try await waitUntil("messages are in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 50
                    }
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 75)
                }
                #expect(await stage.emulator.tally().acked == 0)
            }
        }

        @Test("refused credentials: the worker keeps trying, and pauses before every attempt")
        func refusedCredentials() async throws {
            try await Stage.run { stage in
                let options = WorkerOptions(connections: 1, secret: "FAKE-WRONG-secret")
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.wait(for: "three attempts") { $0.tally.refusals >= 3 }
                let delays = try worker.events("stream.reconnect_scheduled").compactMap {
                    $0["duration_seconds"] as? Double
                }
                #expect(delays.count >= 2 && delays.allSatisfy { $0 >= 0.1 })
                #expect(try worker.events("stream.sasl_refused").count >= 2)
                #expect(await stage.emulator.tally().bound == 0)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("no token, secret, message id or payload is in logs, metrics, arguments, or PostgreSQL's log (G9)")
        func secrecy() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 500)
                $0.load.connections = 2
                $0.load.idPrefix = "IDENTITY-MARKER"
                $0.faults = try FaultScript(
                    parsing: "every 9: odd-json; every 20: conflict; every 30: duplicate; every 45: nack; "
                        + "every 50: stanza-error; every 55: noise; after 400: bad-xml stray-markup"
                )
            } _: { stage in
                try await stage.database.script(
                    "ALTER TABLE upstream.messages ADD CHECK (right(message_id, 3) <> '007')"
                )
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await stage.wait(for: "two streams") { $0.tally.bound >= 2 }
                let json = #"{"message_id":"IDENTITY-MARKER-x","from":"FAKE-t","category":"c","data":["PAYLOAD-MARKER"#
                for rest in [#""]}"#, #"\u0000"]}"#, #""]"#] {
                    let isWhole = rest.hasSuffix("}")
                    try await stage.emulator.inject(
                        json: json + rest,
                        id: isWhole ? "IDENTITY-MARKER-x" : "",
                        to: "FAKE-t",
                        expectsAck: isWhole
                    )
                }
                try await stage.waitUntilComplete()
                let metrics = try await worker.scrape().text
                let arguments = try readSystemTable("/proc/\(worker.processID)/cmdline")
                let environment = try readSystemTable("/proc/\(worker.processID)/environ")
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                let log = try worker.logText()
                #expect(log.contains("message.row_refused") && log.contains("stanza.ignored"))
                let server = try String(contentsOf: stage.database.serverLog, encoding: .utf8)
                #expect(try await stage.database.count("quarantine") > 0)
                let places = [
                    "log": log, "metrics": metrics, "PostgreSQL's log": server,
                    "arguments": arguments, "environment": environment,
                ]
                // Secrets, too, in the form that SASL gives them.
                let plain = Data("\0\(Stage.sender)@gcm.googleapis.com\0\(Stage.secret)".utf8).base64EncodedString()
                for (place, text) in places {
                    for mark in ["FAKE-", "NOT-A-REAL", "IDENTITY-MARKER", "PAYLOAD-MARKER", "basket", plain] {
                        #expect(!text.contains(mark), "\(mark) in \(place)")
                    }
                }
            }
        }
    }
}
