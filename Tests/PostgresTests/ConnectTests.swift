import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import Synchronization
import Testing
import Vocabulary

@testable import Postgres

/// Connecting to what does not answer, and to one of several hosts.
@Suite("connecting")
struct ConnectTests {
    /// Takes connections on a unix socket, and says nothing.
    private final class SilentServer: Sendable {
        let folder: URL
        private let listener: Int32
        private let accepted = Mutex(0)

        var connections: Int { accepted.withLock { $0 } }

        init() throws {
            folder = URL(filePath: "/tmp/upstream-silent-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let path = folder.appending(path: ".s.PGSQL.5432").path
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard bound == 0, listen(listener, 8) == 0 else { throw POSIXError(.EADDRINUSE) }
            Thread.detachNewThread { [self] in
                while accept(listener, nil, nil) >= 0 { accepted.withLock { $0 += 1 } }
            }
        }

        func close() {
            shutdown(listener, Int32(SHUT_RDWR))
            try? FileManager.default.removeItem(at: folder)
        }
    }

    private func settings(_ folders: [String], isWriter: Bool = true) throws -> PostgresSettings {
        // A time-out would end the test as well.
        var settings = try PostgresSettings(
            url: "host=\(folders.joined(separator: ",")) dbname=upstream user=upstream connect_timeout=3600"
        )
        settings.isWriter = isWriter
        return settings
    }

    @Test(
        "a task that connects to a silent server ends when it is cancelled, and its client stays of use",
        .timeLimit(.minutes(5)),
        arguments: [true, false]
    )
    func cancelled(isWriter: Bool) async throws {
        let server = try SilentServer()
        defer { server.close() }
        let client = PostgresClient(try settings([server.folder.path], isWriter: isWriter))
        let tasks = (0..<3).map { _ in
            Task {
                try await client.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
            }
        }
        try await waitUntil { server.connections == 1 }
        tasks[0].cancel()
        await #expect(throws: PostgresError.self) { try await tasks[0].value }
        tasks[1].cancel()
        tasks[2].cancel()
        for task in tasks { await #expect(throws: PostgresError.self) { try await task.value } }
        // All of them shared one attempt.
        #expect(server.connections == 1)
        await client.close()
    }

    @Test("a silent host does not hold up the next one", .timeLimit(.minutes(5)))
    func nextHost() async throws {
        let server = try SilentServer()
        defer { server.close() }
        let client = PostgresClient(try settings([server.folder.path, SharedCluster.cluster.socketFolder.path]))
        let one = try await client.run { connection throws(PostgresError) in
            try connection.query("SELECT 1").value(Int64.self)
        }
        #expect(one == 1)
        await client.close()
    }

    @Test("a host that refuses is not waited for behind one that is silent", .timeLimit(.minutes(5)))
    func refusal() async throws {
        let server = try SilentServer()
        defer { server.close() }
        let connector = HostConnector(try settings([server.folder.path, "/nowhere"]))
        for _ in 0..<3 {
            let error = await #expect(throws: PostgresError.self) { try await connector.open() }
            #expect(error?.failureClass == .connection)
        }
        // The silent one has been asked once, and may still answer.
        #expect(server.connections == 1)
    }

    @Test("who tries again and again asks a server that refuses only once, and does without its SQLSTATE")
    func unexplained() async throws {
        let url = SharedCluster.cluster.url.replacing("user=upstream", with: "user=stranger")
        let settings = try PostgresSettings(url: url)
        for (explains, state) in [(true, "28000"), (false, nil)] as [(Bool, String?)] {
            let error = await #expect(throws: PostgresError.self) {
                try await PostgresConnection.open(settings, explainsRefusal: explains)
            }
            #expect(error?.sqlState == state)
        }
    }

    @Test("after a read-only error the next host is asked first", .timeLimit(.minutes(5)))
    func nextHostAfterReadOnly() async throws {
        let server = try SilentServer()
        defer { server.close() }
        let client = PostgresClient(try settings([SharedCluster.cluster.socketFolder.path, server.folder.path]))
        func write(_ preparation: String) async throws {
            try await client.run { connection throws(PostgresError) in
                try connection.script(preparation)
                try connection.script("DROP TABLE IF EXISTS public.nothing")
            }
        }
        try await write("SELECT 1")
        #expect(server.connections == 0)
        let error = await #expect(throws: PostgresError.self) {
            try await write("SET default_transaction_read_only = on")
        }
        #expect(error?.failureClass == .readOnly)
        // The other one says nothing, so that the first one has its turn again.
        try await write("SELECT 1")
        try await waitUntil { server.connections == 1 }
        await client.close()
    }

    @Test("a process without a file descriptor left says so, and does not blame the server", .timeLimit(.minutes(5)))
    func withoutDescriptors() async throws {
        let settings = try PostgresSettings(url: SharedCluster.cluster.url)
        await (try await PostgresConnection.open(settings)).close()
        let lowest = dup(0)
        close(lowest)
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // Enough for libpq's socket, and for nothing else.
        var lowered = rlimit(rlim_cur: rlim_t(lowest + 1), rlim_max: limit.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &lowered)
        var failure: PostgresError?
        do {
            await (try await PostgresConnection.open(settings)).close()
        } catch {
            failure = error
        }
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #expect(failure?.failureClass == .local && failure?.sqlState == nil, "\(String(describing: failure))")
        await (try await PostgresConnection.open(settings)).close()
    }

    @Test("only a session that writes insists on a server that takes writes")
    func readOnly() async throws {
        let admin = try await SharedCluster.open()
        try await admin.run { connection throws(PostgresError) in
            try connection.script("CREATE ROLE reads LOGIN; ALTER ROLE reads SET default_transaction_read_only = on")
        }
        var settings = try PostgresSettings(
            url: SharedCluster.cluster.url.replacingOccurrences(of: "user=upstream", with: "user=reads")
        )
        await (try await PostgresConnection.open(settings)).close()
        settings.isWriter = true
        let error = await #expect(throws: PostgresError.self) { try await PostgresConnection.open(settings) }
        #expect(error?.sqlState == "25006" && error?.failureClass == .readOnly)
    }

    @Test("of a service file's hosts a session that writes takes the one that takes writes", .timeLimit(.minutes(5)))
    func service() async throws {
        let folder = URL(filePath: "/tmp/upstream-service-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        var options = LocalCluster.Options()
        options.isTemporary = true
        options.fsync = false
        let reads = try LocalCluster.start(in: folder, options)
        defer { reads.stop() }
        let admin = try await PostgresConnection.open(PostgresSettings(url: reads.url))
        try await admin.run { connection throws(PostgresError) in
            try connection.script("ALTER ROLE upstream SET default_transaction_read_only = on")
        }
        await admin.close()
        let file = folder.appending(path: "services")
        let hosts = [reads, SharedCluster.cluster].map(\.socketFolder.path).joined(separator: ",")
        try Data("[pair]\nhost=\(hosts)\n".utf8).write(to: file)
        setenv("PGSERVICEFILE", file.path, 1)
        var settings = try PostgresSettings(url: "service=pair dbname=postgres user=upstream")
        func folders() async throws -> String {
            let session = try await PostgresConnection.open(settings)
            let folders = try await session.run { connection throws(PostgresError) in
                try connection.query("SHOW unix_socket_directories").value(String.self)
            }
            await session.close()
            return folders
        }
        #expect(try await folders() == reads.socketFolder.path)
        settings.isWriter = true
        #expect(try await folders() == SharedCluster.cluster.socketFolder.path)
    }

    @Test("A URL with several hosts is split into its hosts")
    func theHostsOfAURLAreTakenApart() throws {
        func hosts(_ url: String) throws -> [HostChoice] { try PostgresSettings(url: url).hosts }
        #expect(
            try hosts("postgresql://a:1,b:2/x")
                == [HostChoice(host: "a", port: "1"), HostChoice(host: "b", port: "2")]
        )
        #expect(try hosts("host=a,b port=7") == [HostChoice(host: "a"), HostChoice(host: "b")])
        #expect(
            try hosts("hostaddr=10.0.0.1,10.0.0.2 host=a,b")
                == [HostChoice(host: "a", address: "10.0.0.1"), HostChoice(host: "b", address: "10.0.0.2")]
        )
        #expect(
            try hosts("postgresql://a,b:1/x")
                == [HostChoice(host: "a", port: "5432"), HostChoice(host: "b", port: "1")]
        )
        // Nothing to choose, or nothing that could be said by keyword.
        for url in ["postgresql:///x", "host=a", "host=a, port=7", "host=a,b port=1,2,3"] {
            #expect(try hosts(url) == [HostChoice()], "\(url)")
        }
    }
}
