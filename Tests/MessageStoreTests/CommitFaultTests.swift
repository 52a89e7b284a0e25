import Dispatcher
import Foundation
import Glibc
import Ingest
import IntegrationSupport
import Logging
import MessageStore
import Telemetry
import Testing
import Vocabulary

@testable import LocalDatabase

/// G5: only what a storing function reports of its rows, or what no text can hold, is said of a message.
@Suite("faults of a statement or of its COMMIT")
struct CommitFaultTests {
    private static let states = ["22023", "23514", "23505", "54000", "P0001"]

    /// The commits of a table fail, outside of every function.
    private func failCommits(_ fixture: StoreFixture, of table: String, _ state: String) async throws {
        try await fixture.script(
            """
            CREATE FUNCTION upstream.fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'no' USING ERRCODE = '\(state)'; END $$;
            CREATE CONSTRAINT TRIGGER failing AFTER INSERT OR UPDATE OR DELETE ON upstream.\(table)
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION upstream.fail()
            """
        )
    }

    @Test("a COMMIT that fails is waited out, whatever its SQLSTATE, and then everything is stored", arguments: states)
    func commits(state: String) async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        _ = try await store.commit([.make(1)])
        try await failCommits(fixture, of: "message_ids", state)
        // Alone, as a batch, and as the batch of a worker that runs the handler.
        let batches: [[IncomingMessage]] = [[.make(2)], [.make(3), .make(4)]]
        for batch in batches {
            for isRetry in [false, true] {
                let error = await #expect(throws: StoreError.self) { try await store.commit(batch, isRetry: isRetry) }
                #expect(error?.kind == .unavailable && error?.sqlState == state)
            }
        }
        let load = await #expect(throws: StoreError.self) { try await store.load([.make(5)], isDelivered: true) }
        #expect(load?.kind == .unavailable)
        try await fixture.script("DROP TRIGGER failing ON upstream.message_ids")
        for batch in batches { #expect(try await store.commit(batch, isRetry: true) == batch.map { _ in .stored }) }
        #expect(try await fixture.count("quarantine") == 0)
    }

    @Test("the commits of a conflict and of a quarantine likewise", arguments: states)
    func conflictAndQuarantine(state: String) async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let known = IncomingMessage.make(1)
        _ = try await store.commit([known])
        let odd: [(table: String, message: IncomingMessage, outcome: StoreOutcome)] = [
            ("conflicts", known.copy(fingerprint: 2), .conflict),
            ("quarantine", .make(2, quarantine: .duplicateKey), .quarantined),
        ]
        for (table, message, outcome) in odd {
            try await failCommits(fixture, of: table, state)
            let error = await #expect(throws: StoreError.self) { try await store.commit([message]) }
            #expect(error?.kind == .unavailable && error?.sqlState == state)
            try await fixture.script("DROP TRIGGER failing ON upstream.\(table); DROP FUNCTION upstream.fail")
            #expect(try await store.commit([message], isRetry: true) == [outcome])
        }
        #expect(try await fixture.count("conflicts") == 1)
        #expect(try await fixture.text("SELECT string_agg(message_id, ' ') FROM upstream.quarantine") == "m-2")
    }

    @Test("a row that a trigger refuses is refused alone, whatever of class 23", arguments: ["23514", "23000"])
    func trigger(state: String) async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        try await fixture.script(
            """
            CREATE FUNCTION upstream.judge() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'no' USING ERRCODE = '\(state)'; END $$;
            CREATE TRIGGER judging BEFORE INSERT ON upstream.messages
            FOR EACH ROW WHEN (new.category = 'com.example.bad') EXECUTE FUNCTION upstream.judge()
            """
        )
        let (good, bad) = (IncomingMessage.make(1), IncomingMessage.make(2, category: "com.example.bad"))
        for batch in [[good, bad], [bad]] {
            let error = await #expect(throws: StoreError.self) { try await store.commit(batch) }
            #expect(error?.kind == .refused && error?.sqlState == state)
        }
        #expect(try await store.commit([good]) == [.stored])
    }

    @Test("a server that gives out no transaction ids any more refuses no row", .timeLimit(.minutes(10)))
    func wraparound() async throws {
        var options = LocalCluster.Options()
        options.fsync = false
        options.isTemporary = true
        options.configuration = ["wal_level = logical", "autovacuum = off"]
        let folder = URL(filePath: "/tmp/upstream-store-xids-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        let cluster = try LocalCluster.start(in: folder, options)
        defer { cluster.stop() }
        let fixture = try await StoreFixture(on: cluster)
        let known = IncomingMessage.make(1)
        #expect(try await fixture.store().commit([known]) == [.stored])
        // Holds the oldest transaction id.
        try await fixture.script("SELECT pg_create_logical_replication_slot('old', 'pgoutput')")
        let oldest = try #require(
            try await fixture.integer("SELECT oldest_xid::text::int8 FROM pg_control_checkpoint()")
        )
        cluster.stop()
        let next = oldest + Int64(Int32.max) - 2_000_000
        let data = folder.appending(path: "data")
        // The status of the transactions around it.
        let file = data.appending(path: "pg_xact/" + String(format: "%04lX", next / 1_048_576))
        try Data(count: 262_144).write(to: file)
        var owner = stat()
        #expect(stat(data.path, &owner) == 0 && chown(file.path, owner.st_uid, owner.st_gid) == 0)
        #expect(cluster.run("pg_resetwal", ["-x", "\(next)", "-D", data.path]) == 0)
        try cluster.restart()
        let store = fixture.store()
        let batches: [[IncomingMessage]] = [
            [.make(2)], [.make(3), .make(4)], [known.copy(fingerprint: 2)], [.make(5, quarantine: .duplicateKey)],
        ]
        for batch in batches {
            let error = await #expect(throws: StoreError.self) { try await store.commit(batch) }
            #expect(error?.kind == .unavailable && error?.sqlState == "54000", "\(error?.message ?? "")")
        }
    }

    @Test("a quarantine that the table refuses keeps its id, and waits")
    func refusedQuarantine() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        try await fixture.script("ALTER TABLE upstream.quarantine ADD CONSTRAINT no CHECK (message_id IS NULL)")
        let message = IncomingMessage.make(1, quarantine: .duplicateKey)
        let error = await #expect(throws: StoreError.self) { try await store.commit([message]) }
        #expect(error?.kind == .unavailable && error?.sqlState == "23514")
        #expect(try await fixture.count("quarantine") == 0)
    }

    /// From 40 million transactions before they run out PostgreSQL warns at each: that is no reason to ack nothing.
    @Test("warnings that are not of the wait for a standby change nothing, and each kind is told of once")
    func warnings() async throws {
        let fixture = try await StoreFixture()
        let output = MemoryLogOutput()
        let status = CommitStatus(logger: .lines(label: "test", level: .info, format: .json, output: output))
        let store = MessageStore(fixture.settings, senders: StoreFixture.senders, status: status)
        // No RAISE: a warning of the server's own, with a number that may be anybody's.
        try await fixture.script(
            """
            CREATE FUNCTION upstream.warn() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_cancel_backend(-4711); RAISE WARNING 'QUOTED-ROW'; RETURN NULL; END $$;
            CREATE TRIGGER warn AFTER INSERT OR UPDATE ON upstream.message_ids EXECUTE FUNCTION upstream.warn();
            CREATE TRIGGER warn AFTER INSERT OR UPDATE ON upstream.conflicts EXECUTE FUNCTION upstream.warn();
            CREATE TRIGGER warn AFTER INSERT OR UPDATE ON upstream.quarantine EXECUTE FUNCTION upstream.warn()
            """
        )
        let known = IncomingMessage.make(1)
        let odd: [IncomingMessage] = [known.copy(fingerprint: 2), .make(2, quarantine: .duplicateKey)]
        #expect(try await store.commit([known]) == [.stored])
        #expect(try await store.commit([.make(3), .make(4)]) == [.stored, .stored])
        #expect(try await store.commit([known.copy()]) == [.duplicate])
        #expect(try await store.commit(odd) == [.conflict, .quarantined])
        let lines = output.lines.filter { $0.contains("database.warning") }
        #expect(lines.count == 1 && lines.first?.contains(#""routine":"pg_signal_backend""#) == true, "\(lines)")
        let isQuoted = output.lines.contains { $0.contains("QUOTED") || $0.contains("PID") }
        #expect(!isQuoted)
    }

    @Test("a settlement whose COMMIT fails is kept and written later, whatever the SQLSTATE", arguments: states)
    func settlement(state: String) async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...2)
        let claimed = try await fixture.claim()
        try await failCommits(fixture.store, of: "deliveries", state)
        let batch = claimed.map { $0.settled(.done) }
        let error = await #expect(throws: StoreError.self) {
            try await fixture.deliveries.settle(batch, of: "orders")
        }
        #expect(error?.kind == .unavailable && error?.sqlState == state)
        try await fixture.store.script("DROP TRIGGER failing ON upstream.deliveries")
        #expect(try await fixture.deliveries.settle(batch, of: "orders") == 2)
    }
}
