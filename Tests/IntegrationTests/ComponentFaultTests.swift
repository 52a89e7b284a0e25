import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// What may happen to a component, its server and its database, with devices that send until they are acked.
    @Suite struct ComponentFaultTests {
        private static func ids(_ range: ClosedRange<Int>) -> [String] { ComponentServerTests.ids(range) }

        private static func expectStored(_ ids: [String], in database: Database) async throws {
            let stored = try await database.texts("SELECT message_id FROM upstream.messages ORDER BY 1")
            #expect(stored == ids.sorted())
        }

        @Test(
            "kill -9 again and again under load: nothing is lost, and nothing is stored twice",
            arguments: ServerKind.allCases
        )
        func killedUnderLoad(_ kind: ServerKind) async throws {
            try await ComponentServerTests.run(kind) { server, device, database in
                let yaml = try server.componentYAML(database)
                let ids = Self.ids(1...2000)
                async let sending: Void = device.sendUntilAcked(ids, limit: .seconds(180))
                for kill in 1...5 {
                    let worker = try ChildWorker(yaml: yaml, in: server.scratch)
                    let goal = device.acks.count + 50
                    try await waitUntil("it has acked some") { device.acks.count >= goal }
                    worker.send(SIGKILL)
                    #expect(try await worker.exitCode() == -SIGKILL)
                    #expect(Set(device.acks).count < ids.count, "nothing was left for kill \(kill)")
                }
                let last = try ChildWorker(yaml: yaml, in: server.scratch)
                try await sending
                try await Self.expectStored(ids, in: database)
                last.send(SIGTERM)
                #expect(try await last.exitCode() == 0)
            }
        }

        @Test(
            "a server that is killed with 500 messages in flight: they are stored, acked when they are sent again, and once",
            arguments: ServerKind.allCases
        )
        func serverKilled(_ kind: ServerKind) async throws {
            try await ComponentServerTests.run(kind) { server, device, database in
                let yaml = try server.componentYAML(database, window: 1000)
                try await ComponentServerTests.withWorker(yaml) { worker in
                    let ids = Self.ids(1...500)
                    try await database.withLockedLedger {
                        try device.send(ids, to: "orders")
                        try await waitUntil("all are in flight") { worker.inFlight == ids.count }
                        try await server.stop()
                        try await waitUntil("the worker knows") {
                            worker.metrics.connections(sender: 0, state: .bound).value == 0
                        }
                        #expect(device.acks.isEmpty)
                    }
                    try await waitUntil("what it had is committed") { worker.settled(.stored) == ids.count }
                    // Nobody is there to be acked to: those acks are dropped.
                    try await waitUntil("all acks are dropped") {
                        worker.metrics.acks[.connectionGone].value >= UInt64(ids.count)
                    }
                    #expect(worker.metrics.acks[.connectionGone].value == UInt64(ids.count))
                    try await server.start()
                    let again = try await StandardSender.start(server)
                    try await again.sendUntilAcked(ids)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) >= ids.count)
                    try await again.stop()
                }
                try await Self.expectStored(Self.ids(1...500), in: database)
            }
        }

        @Test("a database that can't commit: reading pauses at the window, and everything is acked once it can")
        func pausedReading() async throws {
            try await ComponentServerTests.run(.prosody) { server, device, database in
                let yaml = try server.componentYAML(database, window: 16, keepalive: "{interval: 1s, timeout: 2s}")
                try await ComponentServerTests.withWorker(yaml) { worker in
                    let ids = Self.ids(1...300)
                    try await database.withLockedLedger {
                        try device.send(ids, to: "orders")
                        try await waitUntil("reading is paused") { worker.inFlight >= 16 }
                    }
                    try await waitUntil("every message is acked") { device.acks.count >= ids.count }
                    // The server kept what was not read: nothing had to be sent again.
                    #expect(device.acks.sorted() == ids.sorted() && device.errors.isEmpty)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
            }
        }

        @Test(
            "SIGTERM under load: what was read is committed and acked, and the stream is closed in order",
            arguments: ServerKind.allCases
        )
        func termination(_ kind: ServerKind) async throws {
            try await ComponentServerTests.run(kind) { server, device, database in
                let yaml = try server.componentYAML(database)
                let first = try ChildWorker(yaml: yaml, in: server.scratch)
                try await first.waitForEvent("stream.bound")
                let ids = Self.ids(1...400)
                try device.send(ids, to: "orders")
                try await waitUntil("some acks") { device.acks.count >= 50 }
                first.send(SIGTERM)
                #expect(try await first.exitCode() == 0)
                // Each message that was stored has been acked on the stream that brought it.
                let committed = try await database.count("messages")
                try await waitUntil("the last acks") { Set(device.acks).count >= committed }
                #expect(device.acks.count == committed)
                try await ComponentServerTests.withWorker(yaml) { worker in
                    try await device.sendUntilAcked(ids)
                    #expect(worker.settled(.stored) == ids.count - committed)
                }
                try await Self.expectStored(ids, in: database)
            }
        }

        @Test(
            "Prosody serves one connection of a component: a second worker waits, and takes over when the first is gone"
        )
        func standby() async throws {
            try await ComponentServerTests.run(.prosody) { server, device, database in
                let yaml = try server.componentYAML(database)
                let first = try ChildWorker(yaml: yaml, in: server.scratch)
                try await first.waitForEvent("stream.bound")
                let standby = try LocalWorker(yaml: yaml)
                try await waitUntil("the second is refused, and told why") {
                    standby.logs.lines.contains { $0.contains("component_conflict_resolve") }
                }
                try await device.sendUntilAcked(Self.ids(1...20))
                #expect(standby.settled(.stored) == 0)
                #expect(try first.events("stream.reconnect_scheduled").isEmpty)
                first.send(SIGKILL)
                #expect(try await first.exitCode() == -SIGKILL)
                try await device.sendUntilAcked(Self.ids(21...40))
                #expect(standby.settled(.stored) == 20)
                // Not in a loop: 5 s or more lay between attempts.
                #expect(standby.metrics.reconnects[.streamError].value <= 4)
                try await standby.stop()
                try await Self.expectStored(Self.ids(1...40), in: database)
            }
        }

        @Test("ejabberd shares messages out among the connections of a component, and each is stored once")
        func shared() async throws {
            try await ComponentServerTests.run(.ejabberd) { server, device, database in
                let yaml = try server.componentYAML(database, connections: 2, keepalive: "{interval: 1s, timeout: 1s}")
                try await ComponentServerTests.withWorker(yaml) { first in
                    try await ComponentServerTests.withWorker(yaml) { second in
                        for worker in [first, second] {
                            try await waitUntil("both connections are there") {
                                worker.metrics.connections(sender: 0, state: .bound).value == 2
                            }
                        }
                        let stranger = try await StandardSender.start(server, as: StandardServer.stranger)
                        try await device.sendUntilAcked(Self.ids(1...100))
                        try await stranger.sendUntilAcked(Self.ids(101...200))
                        #expect(first.settled(.stored) + second.settled(.stored) == 200)
                        // Idle for some keepalives, which a ping would not outlive: its answer may come elsewhere.
                        let spaces = server.log.count(of: "Received XML on stream = <<\" \">>")
                        try await waitUntil("four connections have sent three spaces each") {
                            server.log.count(of: "Received XML on stream = <<\" \">>") >= spaces + 12
                        }
                        for worker in [first, second] {
                            #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                        }
                        try await stranger.stop()
                    }
                }
                try await Self.expectStored(Self.ids(1...200), in: database)
            }
        }
    }
}

extension String {
    /// How many lines hold a text.
    fileprivate func count(of text: String) -> Int { split(separator: "\n").count { $0.contains(text) } }
}
