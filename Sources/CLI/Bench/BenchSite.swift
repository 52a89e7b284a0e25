import CCSEmulator
import Foundation
import Glibc
import LocalDatabase
import MessageStore
import Postgres
import UpstreamConfiguration
import Vocabulary

/// The environment of a run: a temporary folder with a PostgreSQL server.
///
/// ``close()`` leaves nothing behind.
final class BenchSite: Sendable {
    /// The sender of all benchmarks.
    static let senderID = "1234567890"

    let cluster: LocalCluster
    private let folder: DevFolder

    init() throws {
        let name = "upstream-bench-\(getpid())"
        folder = DevFolder(FileManager.default.temporaryDirectory.appending(path: name).path)
        try folder.make()
        var options = LocalCluster.Options()
        options.isTemporary = true
        do {
            cluster = try LocalCluster.start(in: folder.url.appending(path: "postgres"), options)
        } catch {
            try? FileManager.default.removeItem(at: folder.url)
            throw CommandFailure(.unavailable, error.description)
        }
    }

    /// Stops the server and removes the folder.
    func close() {
        cluster.stop()
        try? FileManager.default.removeItem(at: folder.url)
    }

    /// Creates a database with the schema, and returns its URL.
    ///
    /// A checkpoint flushes the writes of earlier databases, so that they don't fall into the next measurement.
    func makeDatabase(_ name: String) async throws -> String {
        try await Self.run(cluster.url, BenchStatements.create(name))
        let url = cluster.url.replacing("///upstream?", with: "///\(name)?")
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        _ = try await Migrator().up(connection)
        await connection.close()
        try await Self.run(cluster.url, BenchStatements.checkpoint)
        return url
    }

    /// Drops a database and everything in it.
    func dropDatabase(_ name: String) async throws {
        try await Self.run(cluster.url, BenchStatements.drop(name))
    }

    static func run(_ url: String, _ sql: String) async throws {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        try await connection.run { connection throws(PostgresError) in try connection.script(sql) }
        await connection.close()
    }

    /// Reads a query's single column of numbers, on its own connection.
    static func numbers(_ url: String, _ statement: SQL) async throws -> [Int] {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        let numbers = try await connection.run { connection throws(PostgresError) in
            try connection.run(statement).map { row throws(PostgresError) in try row.next(Int.self) }
        }
        await connection.close()
        return numbers
    }

    /// Writes a file of the run, and returns its path.
    func write(_ text: String, to name: String) throws -> String { try folder.write(text.utf8, to: name) }

    /// Starts a worker that only dispatches stored messages; `handlers` is YAML.
    func startDispatcher(database: String, handlers: String) throws -> WorkerProcess {
        let yaml = """
            database: {url: "\(database)"}
            handlers:
            \(handlers)
            admin: {listen: "off"}
            log: {format: json}

            """
        return try WorkerProcess(
            run: try folder.write(yaml.utf8, to: "dispatcher.yaml"),
            log: folder.url.appending(path: "dispatcher.log"),
            ["--roles", "dispatch"]
        )
    }

    func startWorker(
        _ emulator: Emulator,
        database: String,
        connections: Int,
        window: Int,
        writers: Int,
        handlers: String
    ) throws -> WorkerProcess {
        let (secret, authority) = try credentials(emulator)
        let yaml = """
            database: {url: "\(database)", writers: \(writers)}
            senders:
              - sender_id: "\(Self.senderID)"
                host: 127.0.0.1
                port: \(emulator.port)
                domain: gcm.googleapis.com
                connections: \(connections)
                window: \(window)
                secret_file: \(secret)
                tls: {ca_file: \(authority)}
            \(handlers.isEmpty ? "" : "handlers:\n" + handlers)
            admin: {listen: "off"}
            log: {format: json}

            """
        let configuration = try folder.write(yaml.utf8, to: "worker.yaml")
        return try WorkerProcess(run: configuration, log: folder.url.appending(path: "worker.log"))
    }

    /// Starts the bare C worker (`Benchmarks/Baseline`) for an emulator; it creates its own table.
    func startBaseline(
        _ program: String,
        _ emulator: Emulator,
        database: String,
        connections: Int,
        writers: Int
    ) throws -> WorkerProcess {
        let (secret, authority) = try credentials(emulator)
        return try WorkerProcess(
            program: URL(filePath: program),
            [
                "127.0.0.1", "\(emulator.port)", "gcm.googleapis.com", Self.senderID, secret, authority, database,
                "\(connections)", "\(writers)",
            ],
            log: folder.url.appending(path: "baseline.log")
        )
    }

    /// Files with the secret and the authority's certificate.
    private func credentials(_ emulator: Emulator) throws -> (secret: String, authority: String) {
        (
            try folder.write("secret".utf8, to: "secret"),
            try folder.write(emulator.authorityPEM ?? [], to: "ca.pem")
        )
    }
}
