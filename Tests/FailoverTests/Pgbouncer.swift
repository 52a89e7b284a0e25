import Foundation
import IntegrationSupport

/// Debian's pgbouncer in transaction mode in front of one address; ends with its owner.
final class Pgbouncer: Sendable {
    /// Its unix socket.
    let socketPath: String
    /// How many connections it has to the server for each database.
    static let poolSize = 20
    private let folder: URL
    // Started once, in `init`, and ended by its id.
    private let processID: Int32

    /// Starts one in front of a server that listens on loopback.
    init(before port: Int) throws {
        folder = URL(filePath: "/tmp/upstream-fo-pgbouncer-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        socketPath = folder.appending(path: ".s.PGSQL.6432").path
        // The two times are as short as people set them who have a standby.
        let configuration = """
            [databases]
            * = host=127.0.0.1 port=\(port) user=upstream
            [pgbouncer]
            listen_addr =
            unix_socket_dir = \(folder.path)
            listen_port = 6432
            pool_mode = transaction
            default_pool_size = \(Self.poolSize)
            server_tls_sslmode = disable
            server_login_retry = 0.2
            server_connect_timeout = 2
            auth_type = any
            logfile = \(folder.path)/log
            """
        processID = try startPgbouncer(configuration, in: folder).processIdentifier
    }

    /// Waits until it listens.
    func waitUntilReady() async throws {
        try await waitUntil("pgbouncer listens") { FileManager.default.fileExists(atPath: socketPath) }
    }

    /// How to reach one of the databases through it, in a session that waits for its turn.
    func url(_ database: String) -> String {
        "postgresql:///\(database)?host=\(folder.path)&port=6432&user=upstream&connect_timeout=60"
    }

    /// What it wrote down.
    var log: String { (try? String(contentsOf: folder.appending(path: "log"), encoding: .utf8)) ?? "" }

    func stop() {
        // Not SIGTERM: Foundation starts its children with most signals blocked.
        kill(processID, SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }
}
