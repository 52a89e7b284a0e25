import CCSEmulator
import Foundation
import IntegrationSupport
import Logging
import MessageStore
import Postgres
import Telemetry
import Testing
import Worker

extension Integration {
    /// A worker and a schema that is not its own: it waits, goes on, and keeps its word.
    @Suite struct SchemaTests {
        @Test("without our schema a worker waits and says what to do; migrated, it receives everything")
        func missing() async throws {
            try await Stage.run(on: try await Database(migrated: false)) {
                $0.load = LoadProfile(count: 100)
            } _: { stage in
                try await stage.withWorker { worker in
                    try await expectWait(worker, "run `upstream-worker migrate up`")
                    #expect(await stage.emulator.tally().connections == 0)
                    try await stage.database.migrate { _ = try await $0.up($1) }
                    try await stage.waitUntilComplete()
                    #expect(try await stage.database.count("messages") == 100)
                    #expect(worker.logs.count("schema.fits") == 1)
                    try await waitUntil("ready") { worker.runtime.readiness.report().isReady }
                }
            }
        }

        @Test("however often it looks, a worker that waits for its schema warns once, and then once a minute")
        func warnsOnce() async throws {
            let database = try await Database(migrated: false)
            let logs = MemoryLogOutput()
            let monitor = DatabaseMonitor(
                try PostgresSettings(url: database.url),
                firstInterval: .milliseconds(1),
                logger: .lines(label: "test", level: .info, format: .json, output: logs)
            )
            let running = Task { await monitor.run() }
            try await waitUntil("it has looked often") {
                try await database.integer(
                    "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
                ) > 100
            }
            #expect(monitor.state.reason?.contains("run `upstream-worker migrate up`") == true)
            try await database.migrate { _ = try await $0.up($1) }
            try await waitUntil("ready") { monitor.isReady }
            #expect(logs.count("schema.differs") == 1 && logs.count("schema.fits") == 1)
            #expect(logs.count("database.unavailable") == 0, "\(logs.lines)")
            running.cancel()
            await running.value
        }

        @Test("a worker waits for a schema that is older, and for one that is newer", arguments: [true, false])
        func otherVersion(isOlder: Bool) async throws {
            let database = try await Database()
            if isOlder {
                try await database.migrate { _ = try await $0.down($1) }
            } else {
                try await database.script(Self.next)
            }
            try await Stage.run(on: database) {
                $0.load = LoadProfile(count: 100)
            } _: { stage in
                try await stage.withWorker { worker in
                    try await expectWait(worker, isOlder ? "older than this binary" : "newer than this binary (9999")
                    #expect(await stage.emulator.tally().connections == 0)
                    if isOlder {
                        try await database.migrate { _ = try await $0.up($1) }
                    } else {
                        try await database.script(Self.previous)
                    }
                    try await stage.waitUntilComplete()
                    #expect(try await database.count("messages") == 100)
                }
            }
        }

        @Test("a worker that runs while the schema goes on a step keeps receiving, acking and handling, and says so")
        func nextStep() async throws {
            let count = 3_000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 1_000
            } _: { stage in
                let options = WorkerOptions(handlers: #"- {name: log, categories: ["*"], log: {}}"#)
                try await stage.withWorker(options) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 500 }
                    // Locks both tables for itself for a moment, as such steps do.
                    try await stage.database.script(Self.next)
                    #expect(await stage.emulator.tally().acked < count)
                    try await stage.waitUntilComplete()
                    try await stage.database.waitUntilHandled(count)
                    let tally = await stage.emulator.tally()
                    #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
                    #expect(try await stage.database.count("messages") == count)
                    #expect(try await stage.database.count("quarantine") == 0)
                    try await waitUntil("it says so") { worker.logs.count("schema.differs") == 1 }
                    #expect(Self.report(worker).contains("newer than this binary (9999 applied)"))
                    try await stage.database.script(Self.previous)
                    try await waitUntil("ready again") { worker.runtime.readiness.report().isReady }
                }
            }
        }

        @Test("the upkeep is measured on while the schema is newer; what can't be measured is NaN, and not what it was")
        func upkeep() async throws {
            let database = try await Database()
            let logs = MemoryLogOutput()
            let metrics = Metrics(senders: [], categories: [], handlers: [], version: "test")
            let monitor = DatabaseMonitor(
                try PostgresSettings(url: database.url),
                metrics: metrics,
                interval: .milliseconds(20),
                upkeepInterval: .zero,
                logger: .lines(label: "test", level: .info, format: .json, output: logs)
            )
            let running = Task { await monitor.run() }
            try await waitUntil("measured") { metrics.partitionsAhead.value == 7 }
            try await database.script(Self.next)
            try await waitUntil("it says so") { logs.count("schema.differs") == 1 }
            try await database.script("ALTER FUNCTION upstream.partitions() RENAME TO other")
            try await waitUntil("unknown") { metrics.partitionsAhead.value.isNaN && metrics.retentionHeld.value.isNaN }
            try await database.script("ALTER FUNCTION upstream.other() RENAME TO partitions")
            try await waitUntil("measured again") { metrics.partitionsAhead.value == 7 }
            #expect(logs.count("schema.fits") == 0)
            running.cancel()
            await running.value
        }

        @Test("what the service manager hears of an outage has nothing of the database's own words")
        func summary() async throws {
            let monitor = DatabaseMonitor(
                try PostgresSettings(url: "host=/nowhere/FAKE user=FAKE dbname=FAKE"),
                logger: .lines(label: "test", level: .info, format: .json, output: MemoryLogOutput())
            )
            let running = Task { await monitor.run() }
            try await waitUntil("asked") { monitor.state.reason?.contains("FAKE") == true }
            #expect(monitor.summary == "the database does not answer: connection")
            running.cancel()
            await running.value
        }

        @Test("a signal ends a worker that waits for its schema, with 0; an edited migration ends it with 78")
        func ends() async throws {
            try await Stage.run(on: try await Database(migrated: false)) { stage in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await worker.waitForEvent("schema.differs")
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(await stage.emulator.tally().connections == 0)
            }
            try await Stage.run { stage in
                try await stage.database.editFirstMigration()
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                #expect(try await worker.exitCode() == 78)
                #expect(try worker.logText().contains("an applied migration is never edited"))
                #expect(await stage.emulator.tally().connections == 0)
            }
        }

        /// What the step behind the last one might be: it adds to tables, and takes nothing from them.
        private static let next = """
            BEGIN;
            ALTER TABLE upstream.messages ADD COLUMN region text;
            ALTER TABLE upstream.deliveries ADD COLUMN region text NOT NULL DEFAULT '';
            INSERT INTO upstream.schema_migrations (version, checksum) VALUES ('9999', '');
            COMMIT
            """

        private static let previous = """
            BEGIN;
            ALTER TABLE upstream.messages DROP COLUMN region;
            ALTER TABLE upstream.deliveries DROP COLUMN region;
            DELETE FROM upstream.schema_migrations WHERE version = '9999';
            COMMIT
            """

        private func expectWait(_ worker: LocalWorker, _ reason: String) async throws {
            try await waitUntil("the worker says that it waits") { worker.logs.count("schema.differs") == 1 }
            let report = Self.report(worker)
            #expect(report.contains("[-] database failed: ") && report.contains(reason), "\(report)")
        }

        private static func report(_ worker: LocalWorker) -> String {
            worker.runtime.readiness.report().lines.joined(separator: "\n")
        }
    }
}

extension MemoryLogOutput {
    /// How many lines have this event.
    fileprivate func count(_ event: String) -> Int { lines.count { $0.contains("\"event\":\"\(event)\"") } }
}

extension Database {
    /// Moves the schema.
    func migrate(_ body: (Migrator, PostgresConnection) async throws -> Void) async throws {
        let session = try await PostgresConnection.open(PostgresSettings(url: url))
        try await body(Migrator(), session)
        await session.close()
    }

    /// Makes the first migration look as if it had been applied from another text.
    func editFirstMigration() async throws {
        try await script("UPDATE upstream.schema_migrations SET checksum = '' WHERE version = '0101'")
    }
}
