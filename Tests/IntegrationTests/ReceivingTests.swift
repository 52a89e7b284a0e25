import CCSEmulator
import EmulatorSupport
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// The good way, with everything a peer may do that is not wrong.
    @Suite struct ReceivingTests {
        @Test(
            "every message is stored once and every copy acked on its own connection, and the books balance (G1, G2, G8)"
        )
        func everythingArrives() async throws {
            let count = 3000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 3
                $0.load.receiptShare = 0.1
                $0.load.size = 300...2000
                $0.faults = try FaultScript(
                    parsing: "every 97: torn 5ms; every 301: bytewise; every 50: duplicate; every 70: redeliver; "
                        + "every 200: whitespace; every 210: ping"
                )
            } _: { stage in
                try await stage.withWorker(WorkerOptions(connections: 3)) { worker in
                    // A flag, for Foundation's URLSession traps when a request is cancelled at a bad moment.
                    let isOver = Gauge()
                    try await withThrowingTaskGroup(of: Int.self) { group in
                        group.addTask {
                            var scrapes = 0
                            repeat {
                                let books = try await worker.scrape()
                                #expect(books.received == books.accountedFor, "scrape \(scrapes)")
                                scrapes += 1
                            } while isOver.value == 0
                            return scrapes
                        }
                        defer { isOver.set(1) }
                        try await stage.waitUntilComplete()
                        isOver.set(1)
                        let scrapes = try await group.next() ?? 0
                        #expect(scrapes > 1)
                    }
                    let tally = await stage.emulator.tally()
                    #expect(tally.isClean && tally.bound == 3, "\(tally.summary)")
                    let books = try await worker.scrape()
                    #expect(books.received == books.accountedFor && books.received == Double(tally.deliveries))
                    #expect(books.sum("upstream_messages_in_flight") == 0)
                    #expect(worker.settled(.stored) == count)
                    #expect(worker.settled(.duplicate) == tally.deliveries - count)
                    #expect(books.sum("upstream_acks_total", "outcome=\"sent\"") == Double(tally.ackedCopies))
                }
                let receipts = (0..<count).count { stage.generator.isReceipt($0) }
                #expect(try await stage.database.count("messages") == count)
                #expect(try await stage.database.count("message_ids") == count)
                #expect(try await stage.database.count("messages WHERE message_type = 'receipt'") == receipts)
                // Every row holds the content of its own message.
                let whole = """
                    messages WHERE right(message_id, 12) = coalesce(
                        data->>'n', right(data->>'original_message_id', 12)) AND data::jsonb IS NOT NULL
                    """
                #expect(try await stage.database.count(whole) == count)
            }
        }

        @Test("two workers on one sender store each id once, whatever the peer delivers again where (G4)")
        func twoWorkers() async throws {
            let count = 2000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 4
                $0.faults = try FaultScript(parsing: "every 10: redeliver; every 25: duplicate; every 40: conflict")
            } _: { stage in
                try await stage.withWorker { first in
                    try await stage.withWorker { second in
                        try await stage.waitUntilComplete()
                        let tally = await stage.emulator.tally()
                        #expect(tally.isClean, "\(tally.summary)")
                        func total(_ outcome: StoreOutcome) -> Int {
                            first.settled(outcome) + second.settled(outcome)
                        }
                        // Copies that reach both workers in the same microsecond count as new twice; the rows below don't.
                        #expect((count...count + 5).contains(total(.stored)))
                        #expect(total(.conflict) > 0 && total(.quarantined) == 0)
                        #expect(total(.stored) + total(.duplicate) + total(.conflict) == tally.deliveries)
                        #expect(first.settled(.stored) > 0 && second.settled(.stored) > 0)
                    }
                }
                let database = stage.database
                #expect(try await database.count("messages") == count)
                #expect(
                    try await database.integer("SELECT count(DISTINCT (sender_id, message_id)) FROM upstream.messages")
                        == count
                )
                let strays =
                    "conflicts AS c WHERE NOT EXISTS "
                    + "(SELECT FROM upstream.message_ids AS i WHERE i.message_key = c.message_key"
                    + " AND i.fingerprint <> c.fingerprint)"
                #expect(try await database.count("conflicts") > 0)
                #expect(try await database.count(strays) == 0)
            }
        }

        @Test("a known id with other content goes to conflicts and is acked; the stored message stays as it was (G3)")
        func conflict() async throws {
            try await Stage.run { stage in
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.wait(for: "a bound stream") { !$0.bound.isEmpty }
                    for (text, outcome) in [("one", 1), ("two", 2), ("two", 3), ("one", 4)] {
                        let json = #"{"message_id":"m-1","from":"FAKE-t","category":"c","data":"\#(text)"}"#
                        try await stage.emulator.inject(json: json, id: "m-1", to: "FAKE-t")
                        try await stage.wait(for: "the ack") {
                            $0.tally.ackedCopies == outcome
                        }
                    }
                    #expect(worker.settled(.stored) == 1)
                    #expect(worker.settled(.conflict) == 2)
                    #expect(worker.settled(.duplicate) == 1)
                }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean, "\(tally.summary)")
                #expect(try await stage.database.texts("SELECT data::text FROM upstream.messages") == [#""one""#])
                let rows = try await stage.database.texts("SELECT data::text || times_seen FROM upstream.conflicts")
                #expect(rows == [#""two"2"#])
            }
        }
    }
}
