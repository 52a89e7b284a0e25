import Foundation
import FoundationNetworking
import Glibc
import IntegrationSupport
import MessageStore
import Postgres
import Processes

/// Two PostgreSQL servers under Debian's Patroni, with etcd, on loopback and in a temporary folder.
///
/// Synchronous mode, strict unless ``setStrict(_:)`` says otherwise. Used by one task. Everything ends with its owner, and
/// with the tests' process, however that ends.
final class PatroniCluster {
    /// What Patroni says of one server.
    struct Member: Decodable {
        var name: String
        /// `leader`, `sync_standby` or `replica`.
        var role: String
        var state: String
        var port: Int
    }

    private let folder: URL
    /// etcd's two, then a REST interface and a server for each node.
    private let ports: [Int]
    /// Whoever ends what we leave behind.
    private let keeper: ChildProcess
    private let lifeline: Int32
    private var processes: [String: ChildProcess] = [:]

    /// How the workers reach the servers.
    var url: String {
        let hosts = (0..<2).map { "127.0.0.1:\(ports[3 + 2 * $0])" }.joined(separator: ",")
        return "postgresql://upstream@\(hosts)/upstream?sslmode=disable&gssencmode=disable"
    }

    /// Starts both and waits until one is the other's synchronous standby; with an empty schema.
    static func start() async throws -> PatroniCluster {
        for program in ["/usr/bin/patroni", "/usr/bin/patronictl", "/usr/bin/etcd"]
        where !FileManager.default.isExecutableFile(atPath: program) {
            throw WaitedTooLong(description: "no \(program): run scripts/install-test-tools")
        }
        let cluster = try PatroniCluster()
        try cluster.startEtcd()
        for node in 0..<2 { try cluster.startPatroni(node) }
        let leader = try await cluster.waitUntilWhole()
        try await cluster.run("CREATE DATABASE upstream", on: leader, in: "postgres")
        return cluster
    }

    /// Makes the tables.
    func migrate() async throws {
        let leader = try await waitUntilWhole()
        let session = try await PostgresConnection.open(PostgresSettings(url: url(of: leader)))
        _ = try await Migrator().up(session)
        await session.close()
    }

    private init() throws {
        folder = URL(filePath: "/tmp/upstream-patroni-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        ports = try freePorts(6)
        try FileManager.default.createDirectory(
            at: folder.appending(path: "pids"),
            withIntermediateDirectories: true
        )
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw WaitedTooLong(description: "no pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // What has the folder in its command line is ours, whoever else got an old number meanwhile.
        let script = """
            read -r _
            for file in "$1"/pids/* "$1"/data*/postmaster.pid; do
                [ -e "$file" ] || continue
                pid=$(head -n 1 "$file")
                tr '\\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$1" && kill -9 "$pid"
            done
            while ! rm -rf "$1"; do sleep 0.1; done
            """
        lifeline = ends[1]
        keeper = try ChildProcess(
            ChildProgram(["/bin/sh", "-c", script + " 2>/dev/null", "sh", folder.path]),
            input: ends[0]
        )
        close(ends[0])
        for node in 0..<2 { try configure(node) }
        // PostgreSQL refuses root.
        if getuid() == 0, let user = getpwnam("postgres") {
            chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid)
        }
    }

    /// Ends all of it.
    func stop() {
        close(lifeline)
        keeper.wait()
        for process in processes.values { process.wait() }
    }

    // MARK: what can happen

    /// As an operator does it.
    func switchOver() async throws {
        let leader = try await waitUntilWhole()
        try patronictl("switchover", "upstream", "--candidate", "node\(1 - leader)", "--force")
    }

    /// `kill -9` of a server, of its Patroni, or of both; Patroni first, which would start the server again.
    func kill(_ node: Int, patroni: Bool, postgres: Bool) throws {
        if patroni, let process = processes.removeValue(forKey: "node\(node)") {
            try? FileManager.default.removeItem(at: folder.appending(path: "pids/node\(node)"))
            process.send(SIGKILL)
            process.wait()
        }
        guard postgres else { return }
        let file = folder.appending(path: "data\(node)/postmaster.pid")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        guard let id = lines.first.flatMap({ Int32($0) }), Glibc.kill(id, SIGKILL) == 0 else {
            throw WaitedTooLong(description: "no server to kill on node\(node)")
        }
    }

    /// Starts a node's Patroni, which starts its server.
    func startPatroni(_ node: Int) throws {
        try launch("node\(node)", ["/usr/bin/patroni", folder.appending(path: "node\(node).yml").path])
    }

    /// Whether commits wait while there is no standby (strict), or go on without.
    func setStrict(_ isStrict: Bool) throws {
        try patronictl("edit-config", "upstream", "--force", "-s", "synchronous_mode_strict=\(isStrict)")
    }

    // MARK: what is the case

    /// What a node's Patroni says of the cluster; empty where it doesn't answer.
    func members(asking node: Int) async -> [Member] {
        struct View: Decodable { var members: [Member] }
        guard let url = URL(string: "http://127.0.0.1:\(ports[2 + 2 * node])/cluster") else { return [] }
        let request = URLRequest(url: url, timeoutInterval: 2)
        guard let (data, _) = try? await URLSession.shared.data(for: request) else { return [] }
        return (try? JSONDecoder().decode(View.self, from: data))?.members ?? []
    }

    /// Waits until a leader has a synchronous standby, and gives the leader's number.
    @discardableResult
    func waitUntilWhole() async throws -> Int {
        var leader = 0
        try await waitUntil("a leader with a synchronous standby; \(folder.path)", limit: .seconds(90)) {
            for node in 0..<2 {
                let members = await members(asking: node)
                guard let found = members.first(where: { $0.role == "leader" }), found.state == "running",
                    members.contains(where: { $0.role == "sync_standby" })
                else { continue }
                leader = found.name == "node0" ? 0 : 1
                let states = try? await texts("SELECT sync_state FROM pg_stat_replication", on: leader, in: "postgres")
                return states == ["sync"]
            }
            return false
        }
        return leader
    }

    /// How to reach one server.
    func url(of node: Int, _ database: String = "upstream") -> String {
        "postgresql://upstream@127.0.0.1:\(ports[3 + 2 * node])/\(database)?sslmode=disable&gssencmode=disable"
            + "&application_name=patroni-test"
    }

    /// The first column of a query on one server.
    func texts(_ sql: String, on node: Int, in database: String = "upstream") async throws -> [String] {
        try await FailoverTests.texts(sql, at: url(of: node, database))
    }

    /// Runs one statement on one server.
    func run(_ sql: String, on node: Int, in database: String = "upstream") async throws {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url(of: node, database)))
        try await connection.run { connection throws(PostgresError) in try connection.script(sql) }
        await connection.close()
    }

    /// The last lines that a node wrote.
    func lastWords(_ node: Int) -> String {
        let log = (try? String(contentsOf: folder.appending(path: "node\(node).log"), encoding: .utf8)) ?? ""
        return log.split(separator: "\n").suffix(15).joined(separator: "\n")
    }

    // MARK: programs

    private func startEtcd() throws {
        let (client, peer) = ("http://127.0.0.1:\(ports[0])", "http://127.0.0.1:\(ports[1])")
        try launch(
            "etcd",
            [
                "/usr/bin/etcd", "--data-dir", folder.appending(path: "etcd").path, "--unsafe-no-fsync",
                "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=\(peer)",
            ]
        )
    }

    private static func asServer(_ command: [String]) -> [String] {
        let asPostgres = ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        return (getuid() == 0 ? asPostgres : []) + command
    }

    private func launch(_ name: String, _ command: [String]) throws {
        let log = open(folder.appending(path: "\(name).log").path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard log >= 0 else { throw WaitedTooLong(description: "no log for \(name)") }
        defer { close(log) }
        let process = try ChildProcess(ChildProgram(Self.asServer(command)), output: log, error: log)
        processes[name] = process
        try Data("\(process.id)\n".utf8).write(to: folder.appending(path: "pids/\(name)"))
    }

    private func patronictl(_ arguments: String...) throws {
        let command = ["/usr/bin/patronictl", "-c", folder.appending(path: "node0.yml").path] + arguments
        let process = try ChildProcess(ChildProgram(Self.asServer(command)))
        guard process.wait() == .code(0) else {
            throw WaitedTooLong(description: "patronictl \(arguments.joined(separator: " ")) failed")
        }
    }

    /// The times are the shortest that Patroni takes: failover after 20 s without a sign of life.
    private func configure(_ node: Int) throws {
        let yaml = """
            scope: upstream
            name: node\(node)
            restapi: {listen: "127.0.0.1:\(ports[2 + 2 * node])", connect_address: "127.0.0.1:\(ports[2 + 2 * node])"}
            etcd3: {host: "127.0.0.1:\(ports[0])"}
            bootstrap:
              dcs:
                ttl: 20
                loop_wait: 1
                retry_timeout: 3
                synchronous_mode: true
                synchronous_mode_strict: true
                postgresql:
                  use_pg_rewind: true
                  use_slots: true
                  parameters: {wal_log_hints: "on", fsync: "off", autovacuum: "off"}
                  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
              initdb: [{encoding: UTF8}, {locale: C.UTF-8}, no-sync]
            postgresql:
              listen: "127.0.0.1:\(ports[3 + 2 * node])"
              connect_address: "127.0.0.1:\(ports[3 + 2 * node])"
              data_dir: \(folder.path)/data\(node)
              bin_dir: \(try LocalServer.programs().path)
              pgpass: \(folder.path)/pgpass\(node)
              authentication:
                superuser: {username: upstream}
                replication: {username: replicator}
                rewind: {username: upstream}
              parameters: {unix_socket_directories: ""}

            """
        try Data(yaml.utf8).write(to: folder.appending(path: "node\(node).yml"))
    }
}

/// Where the server's programs are.
private enum LocalServer {
    static func programs() throws -> URL {
        let root = URL(filePath: "/usr/lib/postgresql")
        let versions = try FileManager.default.contentsOfDirectory(atPath: root.path).compactMap { Int($0) }.sorted(
            by: >
        )
        for version in versions {
            let folder = root.appending(path: "\(version)/bin")
            if FileManager.default.isExecutableFile(atPath: folder.appending(path: "initdb").path) { return folder }
        }
        throw WaitedTooLong(description: "no PostgreSQL server programs under \(root.path)")
    }
}
