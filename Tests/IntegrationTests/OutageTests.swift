import CCSEmulator
import EmulatorSupport
import IntegrationSupport
import LocalDatabase
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// The database is away, or can't commit: nothing is acked, nothing is lost, nobody is blamed (G1, G5).
    @Suite struct OutageTests {
        /// What must hold at the end of every outage.
        private func expectNothingLost(_ stage: Stage, _ count: Int) async throws {
            let tally = await stage.emulator.tally()
            #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
            #expect(try await stage.database.count("messages") == count)
            #expect(try await stage.database.count("quarantine") == 0)
            #expect(try await stage.database.count("conflicts") == 0)
        }

        /// Acked, asked first, is never more than what is committed.
        private func expectAckedIsCommitted(_ stage: Stage) async throws {
            let acked = await stage.emulator.tally().acked
            #expect(try await stage.database.count("messages") >= acked)
        }

        @Test("while the ledger is locked nothing is acked and reading pauses; then work resumes by itself")
        func lockedTable() async throws {
            let count = 6000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.size = 2000...2000
                // A peer that keeps no window.
                $0.window = 100_000
            } _: { stage in
                try await stage.withWorker(WorkerOptions(connections: 2, window: 100)) { worker in
                    try await stage.database.withLockedLedger {
                        try await waitUntil("commits fail for want of the lock") {
                            worker.metrics.databaseErrors[.lock].value >= 2
                        }
                        let sent = await stage.emulator.tally()
                        // What the sockets hold comes on top of what the worker took.
                        #expect(sent.deliveries > 300 && sent.acked == 0, "\(sent.summary)")
                        // The limit of a connection is 120; what one turn of its event loop reads (four times 64 KiB at
                        // most, of which a message takes over 2,000 bytes) is taken whole.
                        let inFlight = worker.inFlight
                        #expect(inFlight >= 240 && inFlight <= 2 * (120 + 131), "\(inFlight)")
                        #expect(try await worker.scrape().sum("upstream_acks_total") == 0)
                    }
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count)
                }
                try await expectNothingLost(stage, count)
            }
        }

        @Test("in an outage a lost connection is not replaced until what it brought is stored: memory stays bounded")
        func lostConnections() async throws {
            let count = 1000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 500
                $0.window = 100
            } _: { stage in
                try await stage.withWorker(WorkerOptions(connections: 1, window: 100)) { worker in
                    let failures = worker.metrics.databaseErrors[.lock]
                    try await stage.database.withLockedLedger {
                        try await waitUntil("the window is full") { worker.inFlight >= 100 }
                        let connection = try #require(try await stage.emulator.snapshot().bound.first)
                        try await stage.emulator.kill(connection.number, reset: true)
                        try await waitUntil("the worker has noticed") {
                            worker.metrics.connections(sender: 0, state: .bound).value == 0
                        }
                        let before = failures.value
                        try await waitUntil("commits fail on") { failures.value >= before + 2 }
                        #expect(try await stage.emulator.snapshot().connections.isEmpty)
                        #expect(worker.inFlight == 100)
                    }
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 100)
                }
                try await expectNothingLost(stage, count)
            }
        }

        @Test("a cut way to the database loses nothing, and neither does a reply lost behind a COMMIT")
        func cutProxy() async throws {
            let count = 4000
            let database = try await Database()
            let proxy = try await TCPProxy.start(to: database.socketPath)
            try await Stage.run(on: database) {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 3
                $0.load.rate = 2000
            } _: { stage in
                let options = WorkerOptions(connections: 3, database: database.url(through: proxy))
                try await stage.withWorker(options) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 300 }
                    let errors = worker.metrics.databaseErrors[.connection]
                    // Retention and others have sessions too: it may have been one of theirs.
                    try await waitUntil("a lost reply of a writer is noticed") {
                        proxy.swallowNextReply()
                        return errors.value >= 1
                    }
                    try await expectAckedIsCommitted(stage)
                    try await stage.wait(for: "more acks") { $0.tally.acked >= 900 }
                    let before = errors.value
                    proxy.cut()
                    try await waitUntil("every writer has failed, and again") { errors.value >= before + 4 }
                    try await expectAckedIsCommitted(stage)
                    #expect(await stage.emulator.tally().acked < count)
                    #expect(worker.inFlight <= 3 * (120 + 60))
                    proxy.restore()
                    try await stage.waitUntilComplete()
                    // Nothing came twice, so what was committed under a lost reply counts as stored all the same.
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 0)
                }
                try await expectNothingLost(stage, count)
            }
            await proxy.stop()
        }

        @Test("kill -9 of PostgreSQL under load loses nothing that was acked, and work resumes by itself")
        func killedServer() async throws {
            let count = 4000
            try await Stage.runOnOwnServer {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.rate = 1000
            } _: { stage, cluster in
                try await stage.withWorker { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 500 }
                    cluster.kill()
                    try await waitUntil("a commit fails") {
                        worker.metrics.databaseErrors[.connection].value
                            + worker.metrics.databaseErrors[.intervention].value >= 1
                    }
                    #expect(await stage.emulator.tally().acked < count)
                    try cluster.restart()
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 0)
                }
                // The first call finds the session of before broken.
                try await waitUntil("the test's own session is back") {
                    (try? await stage.database.count("messages")) != nil
                }
                try await expectNothingLost(stage, count)
            }
        }

        @Test(
            "a row that PostgreSQL refuses goes to quarantine with an ack, and its batch neighbours are stored (G3, G5)"
        )
        func refusedRow() async throws {
            let count = 600
            try await Stage.run {
                $0.load = LoadProfile(count: count)
            } _: { stage in
                try await stage.database.script(
                    "ALTER TABLE upstream.messages ADD CHECK (right(message_id, 3) NOT IN ('007', '300'))"
                )
                // The load begins with the bound stream: behind the lock it becomes full batches.
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.database.withLockedLedger {
                        try await waitUntil("a batch waits") { worker.inFlight == 100 }
                    }
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count - 2 && worker.settled(.quarantined) == 2)
                    #expect(worker.metrics.databaseErrors[.constraint].value >= 2)
                }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
                #expect(try await stage.database.count("messages") == count - 2)
                let refused = try await stage.database.texts(
                    "SELECT right(message_id, 3) || reason FROM upstream.quarantine ORDER BY 1"
                )
                #expect(refused == ["007database_refused", "300database_refused"])
            }
        }
    }
}
