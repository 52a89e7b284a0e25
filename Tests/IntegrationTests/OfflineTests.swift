import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// What a server has stored offline is fetched before the worker's presence, where it offers that (XEP-0013).
    @Suite struct OfflineTests {
        private static func store(_ ids: [String], _ scenario: ServerScenario) async throws {
            try scenario.device.send(ids)
            try await waitUntil("the server has stored them") {
                try await scenario.server.offlineMessages(scenario.account) == ids.count
            }
        }

        /// How many messages the worker has fetched, each time.
        private static func fetched(_ worker: LocalWorker) -> [Int] {
            worker.logs.lines.filter { $0.contains("\"offline.read\"") }.compactMap { line in
                line.firstMatch(of: /"count":(\d+)/).flatMap { Int($0.1) }
            }
        }

        @Test("900 messages stored offline against a queue of 300: ejabberd hands over all of them, and returns none")
        func flood() async throws {
            try await ServerScenario.run(.ejabberd, ServerOptions(queue: 300)) { scenario in
                let ids = ServerScenario.ids(1...900)
                try await Self.store(ids, scenario)
                try await scenario.withWorker { worker in
                    try await scenario.waitForAcks(ids)
                    #expect(Self.fetched(worker) == [900])
                    #expect(worker.settled(.stored) == 900 && worker.settled(.duplicate) == 0)
                    // Live ones come as ever, and the connection that fetched is gone.
                    try scenario.device.send(["last"])
                    try await scenario.waitForAcks(["last"])
                    let counts = worker.metrics.messages.snapshot()
                    #expect(counts.received(.upstream) == 901 && counts.inFlight == 0)
                    #expect(worker.metrics.connections(sender: 0, state: .bound).value == 1)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
                #expect(scenario.device.errors.isEmpty)
                #expect(try await scenario.server.offlineMessages(scenario.account) == 0)
                #expect(scenario.device.acks.count == ids.count + 1)
                try await scenario.expectStored(ids + ["last"])
            }
        }

        @Test(
            "nothing is removed before the commit: a killed worker leaves its page, once, and what its full address got"
        )
        func killed() async throws {
            try await ServerScenario.run(.ejabberd, ServerOptions(queue: 300)) { scenario in
                let ids = ServerScenario.ids(1...250)
                try await Self.store(ids, scenario)
                try await scenario.database.withLockedLedger {
                    let worker = try ChildWorker(yaml: scenario.yaml(), in: scenario.server.scratch)
                    try await waitUntil("a page is in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 100
                    }
                    #expect(try await scenario.server.offlineMessages(scenario.account) == ids.count)
                    let json = #"{"message_id":"full","from":"FAKE-token","category":"com.example","data":{}}"#
                    try scenario.device.send(
                        stanza: "<message to='\(scenario.device.address)/upstream-worker'>"
                            + "<gcm xmlns='google:mobile:data'>\(json)</gcm></message>"
                    )
                    try await waitUntil("a message to the full address is in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 101
                    }
                    // It receives, and the operator knows.
                    let figures = try await worker.scrape()
                    #expect(figures.sum("upstream_xmpp_connections", "state=\"bound\"") == 1)
                    #expect(try worker.events("offline.reading").compactMap { $0["count"] as? Int } == [ids.count])
                    #expect(try worker.events("stream.bound").isEmpty)
                    worker.send(SIGKILL)
                    _ = try await worker.exitCode()
                    try await scenario.database.endWaitingSessions()
                }
                try await scenario.database.waitUntilAbandoned()
                #expect(try await scenario.database.count("messages") == 0)
                try await waitUntil("the server has stored the one that it had not") {
                    try await scenario.server.offlineMessages(scenario.account) == ids.count + 1
                }
                try await scenario.withWorker { worker in
                    try await scenario.waitForAcks(ids + ["full"])
                    // Nothing of the page was stored a second time, nor returned.
                    #expect(Self.fetched(worker) == [ids.count + 1])
                    #expect(worker.settled(.stored) == ids.count + 1 && worker.settled(.duplicate) == 0)
                }
                #expect(scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids + ["full"])
            }
        }

        @Test("a stanza that can't be read keeps nothing from being fetched, and comes with the presence")
        func unreadable() async throws {
            try await ServerScenario.run(.ejabberd, ServerOptions(queue: 300)) { scenario in
                let deep = String(repeating: "<a>", count: 80) + String(repeating: "</a>", count: 80)
                try scenario.device.send(content: "<x xmlns='urn:x'>\(deep)</x>")
                let ids = ServerScenario.ids(1...150)
                try scenario.device.send(ids)
                try await waitUntil("the server has stored them") {
                    try await scenario.server.offlineMessages(scenario.account) == ids.count + 1
                }
                try await scenario.withWorker { worker in
                    try await scenario.waitForAcks(ids)
                    #expect(Self.fetched(worker) == [ids.count])
                    try await waitUntil("the store is empty") {
                        try await scenario.server.offlineMessages(scenario.account) == 0
                    }
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                }
                try await scenario.expectStored(ids)
            }
        }
    }
}
