import CCSEmulator
import EmulatorSupport
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// The odd cases of docs/protocol.md, through the whole worker.
    @Suite struct OddMessageTests {
        /// Whether one odd message is where it belongs, and nowhere else.
        private func isInPlace(_ odd: OddMessage, tag: String, _ database: Database) async throws -> Bool {
            let stored = "messages WHERE message_id LIKE '%\(tag)'"
            // Raw bytes as text: everything around the tag is ASCII.
            let quarantined = "quarantine WHERE encode(stanza, 'escape') ~ '\(tag)([^0-9]|$)'"
            let counts = (
                try await database.count(stored + " AND data_raw IS NULL"),
                try await database.count(stored + " AND data_raw IS NOT NULL AND data IS NULL"),
                try await database.count(quarantined)
            )
            return switch odd.place {
            case .messages: counts == (1, 0, 0)
            case .messagesRaw: counts == (0, 1, 0)
            // One of them holds no id at all.
            case .quarantine: counts == (0, 0, odd.name == "empty-element" ? 0 : 1)
            case .nowhere: counts == (0, 0, 0)
            }
        }

        @Test(
            "each odd message goes where docs/protocol.md says, acked or not, and the thousand good ones around it don't feel it"
        )
        func oddities() async throws {
            let count = 1000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.faults = try FaultScript(parsing: "every 10: odd-json")
                // Its answer would count as `other`.
                $0.offersSession = false
            } _: { stage in
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.waitUntilComplete()
                    let tally = await stage.emulator.tally()
                    let odd = (0..<tally.deliveries - count).map { OddMessage.all[$0 % OddMessage.all.count] }
                    #expect(odd.count >= OddMessage.all.count)
                    let (database, metrics) = (stage.database, worker.metrics)
                    func number(_ condition: (OddMessage) -> Bool) -> Int { odd.count(where: condition) }
                    let quarantined = number { $0.place == .quarantine }
                    // What is not acked can't be waited for by its ack.
                    try await waitUntil("what is not acked is quarantined") {
                        worker.settled(.quarantined) == quarantined && worker.inFlight == 0
                    }
                    #expect(tally.isClean && tally.bound == 1, "\(tally.summary)")
                    #expect(tally.acked == count + number { $0.isAcked })
                    #expect(
                        worker.settled(.stored) == count + number { $0.place == .messages || $0.place == .messagesRaw }
                    )
                    let malformed = number { $0.place == .quarantine && !$0.isAcked }
                    #expect(metrics.messages.snapshot().received(.malformed) == malformed)
                    let strangers =
                        metrics.stanzas[.untrusted].value + metrics.stanzas[.other].value
                        + metrics.stanzas[.error].value
                    #expect(strangers == number { $0.place == .nowhere })
                    for (index, odd) in odd.enumerated() {
                        let tag = "-odd-\(Stage.sender)-\(index + 1)"
                        #expect(try await isInPlace(odd, tag: tag, database), "\(odd.name)")
                    }
                    #expect(try await database.count("messages WHERE category = 'com.example.app'") == count)
                    // No row makes a query over all of them fail.
                    #expect(try await database.integer("SELECT count(data::jsonb) FROM upstream.messages") > count)
                    #expect(
                        try await database.count("quarantine WHERE octet_length(digest) <> 32 OR stanza = ''") == 0
                    )
                }
            }
        }

        @Test("what can't be acked comes again and is counted, not stored again")
        func malformedAgain() async throws {
            try await Stage.run { stage in
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.wait(for: "a bound stream") { !$0.bound.isEmpty }
                    for number in 1...3 {
                        let json = #"{"from":"FAKE-t","category":"c"}"#
                        try await stage.emulator.inject(json: json, id: "", to: "", expectsAck: false)
                        try await waitUntil("it is settled") { worker.settled(.quarantined) == number }
                    }
                }
                let rows = try await stage.database.texts("SELECT reason || times_seen FROM upstream.quarantine")
                #expect(rows == ["message_id_unusable3"])
                #expect(await stage.emulator.tally().isClean)
            }
        }
    }
}
