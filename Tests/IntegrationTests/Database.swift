import DatabaseSupport
import Foundation
import IntegrationSupport
import LocalDatabase
import MessageStore
import Postgres

/// The suite's PostgreSQL, and a database in it that has our schema.
private enum SharedCluster {
    static let cluster = LocalCluster.forTests("integration")
}

/// One test's database, and a session to look into it.
struct Database: Sendable {
    let cluster: LocalCluster
    let name: String
    /// How to connect over the unix socket.
    let url: String
    private let client: PostgresClient

    /// Makes one, on the suite's cluster unless another is named.
    init(on own: LocalCluster? = nil, tablespace: String = "pg_default", migrated: Bool = true) async throws {
        cluster = own ?? SharedCluster.cluster
        (name, url) = try await TestDatabase.create(on: cluster, tablespace: tablespace)
        var settings = try PostgresSettings(url: url)
        settings.applicationName = "test"
        client = PostgresClient(settings)
        if migrated { try await client.withConnection { _ = try await Migrator().up($0) } }
    }

    /// A session on `cluster` to look into what is a copy of another server's database.
    init(_ original: Database, on cluster: LocalCluster) throws {
        self.cluster = cluster
        name = original.name
        url = cluster.url.replacingOccurrences(of: "/upstream?", with: "/\(name)?")
        client = PostgresClient(try PostgresSettings(url: url))
    }

    /// How to connect through a proxy on loopback.
    func url(through proxy: TCPProxy) -> String {
        "postgresql://upstream@127.0.0.1:\(proxy.port)/\(name)?sslmode=disable&gssencmode=disable"
    }

    var socketPath: String { cluster.socketFolder.appending(path: ".s.PGSQL.5432").path }

    var serverLog: URL { cluster.logFile }

    func script(_ sql: String) async throws {
        try await client.run { connection throws(PostgresError) in try connection.script(sql) }
    }

    func integer(_ sql: String) async throws -> Int {
        try await client.run { connection throws(PostgresError) in
            try connection.query("SELECT (\(sql))::bigint").value(Int?.self) ?? -1
        }
    }

    func count(_ table: String) async throws -> Int { try await integer("SELECT count(*) FROM upstream.\(table)") }

    /// A column of texts.
    func texts(_ sql: String) async throws -> [String] {
        try await client.run { connection throws(PostgresError) in
            let result = try connection.query(sql)
            return try result.map { row throws(PostgresError) in try row.next(String?.self) ?? "NULL" }
        }
    }

    /// Holds the ledger, so that nothing can be committed, until `body` has ended.
    func withLockedLedger<T>(_ body: () async throws -> T) async throws -> T {
        try await withLock("upstream.message_ids", body)
    }

    /// Holds a lock on a table until `body` has ended.
    func withLock<T>(_ table: String, _ body: () async throws -> T) async throws -> T {
        let session = try await PostgresConnection.open(PostgresSettings(url: url))
        func run(_ sql: String) async throws {
            try await session.run { connection throws(PostgresError) in try connection.script(sql) }
        }
        // The body may take longer than our sessions may rest.
        try await run("SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE \(table)")
        do {
            let value = try await body()
            try await run("ROLLBACK")
            await session.run { connection in connection.close() }
            return value
        } catch {
            await session.run { connection in connection.close() }
            throw error
        }
    }

    /// Waits until no worker has a session any more, so that nothing is committed by one that is gone.
    func waitUntilAbandoned() async throws {
        try await waitUntil("the worker's sessions end") {
            try await integer(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'upstream-worker' AND datname = '\(name)'"
            ) == 0
        }
    }
}
