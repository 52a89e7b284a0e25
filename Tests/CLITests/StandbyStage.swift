import ConsoleSupport
import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import Postgres
import QuerySupport

/// A primary with messages, its streaming standby, and a configuration that reads there.
final class StandbyStage: Sendable {
    let fixture: QueryFixture
    /// Ends with its last reference.
    private let primary: LocalCluster
    let standby: LocalCluster
    let readURL: String
    let commands: CommandStage

    /// Starts both; the standby waits for no query: a conflict cancels it at once.
    init() async throws {
        var options = LocalCluster.Options()
        (options.fsync, options.isTemporary) = (false, true)
        options.configuration = [
            "max_standby_streaming_delay = 0", "autovacuum = off", "wal_retrieve_retry_interval = '100ms'",
        ]
        let place = "/tmp/upstream-reads-\(getpid())"
        primary = try LocalCluster.start(in: URL(filePath: place), options)
        fixture = try await QueryFixture([Seed(id: "early")], on: primary)
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('billing');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at)
            SELECT 'billing', message_key, received_at, 2, now() + interval '1 hour' FROM upstream.messages;
            -- At that level a standby refuses everything.
            DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
            END $$
            """
        )
        standby = try LocalCluster.startStandby(of: primary, in: URL(filePath: place + "-standby"), options)
        readURL = fixture.url.replacing(primary.socketFolder.path, with: standby.socketFolder.path)
        commands = try CommandStage(on: fixture)
        let text = "database: {url: \"\(fixture.url)\", read_url: \"\(readURL)\"}\n"
        try text.write(toFile: commands.configuration, atomically: false, encoding: .utf8)
    }

    /// Sessions as commands and console open them there.
    var settings: PostgresSettings {
        get throws {
            var settings = try PostgresSettings(url: readURL)
            settings.isReader = true
            return settings
        }
    }

    /// Has the standby replay nothing more, or what has come meanwhile.
    func hold(_ isHeld: Bool) async throws {
        try await away { [isHeld] connection throws(PostgresError) in
            try connection.script("ALTER SYSTEM SET recovery_min_apply_delay = '\(isHeld ? "1h" : "0")'")
            try connection.script("SELECT pg_reload_conf()")
        }
        guard isHeld else { return try await caughtUp() }
        try await waitUntil("the standby waits before it replays") {
            // A commit that it waits with.
            try await self.fixture.script("SELECT pg_current_xact_id()")
            return try await self.text(
                "SELECT (count(*) = 1)::text FROM pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay'"
            ) == "true"
        }
    }

    /// Waits until the standby has all that the primary has.
    func caughtUp() async throws {
        let end = try await fixture.text("SELECT pg_current_wal_insert_lsn()::text") ?? ""
        try await waitUntil("the standby has caught up") {
            try await self.text("SELECT (pg_last_wal_replay_lsn() >= '\(end)')::text") == "true"
        }
    }

    /// A value on the standby.
    func text(_ sql: String) async throws -> String? {
        try await away { connection throws(PostgresError) in
            try connection.query(sql).first { row throws(PostgresError) in try row.next(String?.self) } ?? nil
        }
    }

    /// Runs something in a session of its own on the standby, again where a conflict has ended that.
    func away<T: Sendable>(
        _ body: @escaping @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws -> T {
        let settings = try PostgresSettings(url: readURL)
        while true {
            do throws(PostgresError) {
                let session = try await PostgresConnection.open(settings)
                return try await session.run { connection throws(PostgresError) in
                    defer { connection.close() }
                    return try body(connection)
                }
            } catch {
                guard error.sqlState == "40001" else { throw error }
            }
        }
    }

    /// Runs a console over both.
    func console(_ body: @escaping @Sendable (ConsoleHarness) async throws -> Void) async throws {
        try await ConsoleHarness.run(on: fixture, readURL: readURL, body)
    }
}
