import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import MessageStore
import Postgres

/// One of the two servers, under addresses that stay when the server behind them is made anew.
struct Node {
    /// The server; nil while there is none.
    var cluster: LocalCluster
    /// Where the worker without a pooler reaches it.
    let direct: TCPProxy
    /// Where its pgbouncer reaches it.
    let pooled: TCPProxy
    /// Processes that were stopped by a signal.
    var stopped: [Int32] = []
}

/// Two servers, one of them the other's synchronous standby, and everything that can happen to them.
///
/// Used by one task.
final class Pair {
    /// The databases of the two ways to the servers.
    static let databases = ["direct", "pooled"]

    private(set) var nodes: [Node]
    /// Which of them takes writes.
    private(set) var primary = 0
    /// What stands before each of them.
    let poolers: [Pgbouncer]
    /// Who keeps the pooler's connections.
    private var holders: [PostgresConnection] = []
    /// What the standby receives its log over.
    private let replication: TCPProxy
    private var foldersMade = 2
    private static let root = "/tmp/upstream-fo-\(getpid())"
    /// When the last fault was, by the servers' clock.
    private(set) var since = Date()

    var standby: Int { 1 - primary }

    private init(nodes: [Node], replication: TCPProxy) throws {
        self.nodes = nodes
        poolers = try nodes.map { try Pgbouncer(before: $0.pooled.port) }
        self.replication = replication
    }

    private static let options: LocalCluster.Options = {
        var options = LocalCluster.Options()
        options.isTemporary = true
        options.fsync = false
        // The standby asks again at once after a lost link, and finds what it missed.
        options.configuration = [
            "wal_retrieve_retry_interval = '50ms'", "wal_keep_size = '512MB'", "autovacuum = off",
            "checkpoint_timeout = '1h'", "max_wal_size = '2GB'",
            // A server that recovers first waits for all who have connected and said nothing: the standby, over a silent link.
            "authentication_timeout = '3s'",
        ]
        return options
    }()

    /// Starts both, with an empty schema in each database.
    static func start() async throws -> Pair {
        let first = try LocalCluster.start(in: URL(filePath: root + "-1"), options)
        for name in databases {
            try await first.script("CREATE DATABASE \(name)", in: "upstream")
            let connection = try await PostgresConnection.open(PostgresSettings(url: first.url(name)))
            _ = try await Migrator().up(connection)
            await connection.close()
        }
        try await first.script("CREATE TABLE probe (at timestamptz DEFAULT now())", in: "upstream")
        let replication = try await TCPProxy.start(to: first.socketPath)
        let second = try LocalCluster.startStandby(of: first, in: URL(filePath: root + "-2"), options)
        var nodes: [Node] = []
        for cluster in [first, second] {
            nodes.append(
                Node(
                    cluster: cluster,
                    direct: try await TCPProxy.start(to: cluster.socketPath),
                    pooled: try await TCPProxy.start(to: cluster.socketPath)
                )
            )
        }
        let pair = try Pair(nodes: nodes, replication: replication)
        for pooler in pair.poolers { try await pooler.waitUntilReady() }
        try await pair.replicate()
        return pair
    }

    /// Ends both.
    func stop() async {
        for pooler in poolers { pooler.stop() }
        for index in nodes.indices { end(index) }
        for node in nodes {
            await node.direct.stop()
            await node.pooled.stop()
        }
        await replication.stop()
    }

    // MARK: Faults

    /// Does what a step says; waiting and the peer are not its business.
    func perform(_ step: Fault.Step) async throws {
        switch step {
        case .cutLink: replication.cut()
        case .stallLink: await replication.stall()
        case .killStandby: nodes[standby].cluster.kill()
        case .cancel: try await signal("SELECT pg_cancel_backend(pid)")
        case .terminate: try await signal("SELECT pg_terminate_backend(pid)")
        case .killBackend: try await killBackend()
        case .restartPrimary:
            nodes[primary].cluster.kill()
            try nodes[primary].cluster.restart()
        case .breakClients:
            for way in ways { way.cut() }
            for way in ways { way.restore() }
        case .stallClients: for way in ways { await way.stall() }
        case .killPrimary:
            try await kill(primary)
        case .killOldPrimary:
            try await kill(standby)
        case .killPrimaryBehindProxy: nodes[primary].cluster.kill()
        case .stopPrimary: stopPrimary()
        case .promote:
            try await nodes[standby].cluster.script("SELECT pg_promote(false)", in: "upstream")
            primary = standby
        case .fillPool: try await fillPool()
        case .restore: try await restore()
        case .commitsWait, .statementsGivenUp, .passLimit, .resetPeer: return
        }
    }

    private func kill(_ index: Int) async throws {
        for way in [nodes[index].direct, nodes[index].pooled] { try await way.refuse() }
        nodes[index].cluster.kill()
    }

    /// From now on only statements that are new count as waiting; with nil, all.
    func noteFault(at time: Date? = Date()) { since = time ?? Date(timeIntervalSince1970: 0) }

    private var ways: [TCPProxy] { [nodes[primary].direct, nodes[primary].pooled] }

    private static let waiting = """
        FROM pg_stat_activity
        WHERE datname IN ('direct', 'pooled') AND wait_event IN ('SyncRep', 'transactionid')
        """

    /// How many statements of a database wait for the standby, or for such a one, that began after the last fault.
    func waiting(in database: String) async throws -> Int {
        let count = try await nodes[primary].cluster.texts(
            """
            SELECT count(*)::text \(Self.waiting) AND datname = '\(database)'
                AND query_start > to_timestamp(\(since.timeIntervalSince1970))
            """,
            in: "upstream"
        )
        return Int(count.first ?? "") ?? 0
    }

    private func signal(_ select: String) async throws {
        _ = try await nodes[primary].cluster.texts(
            "\(select)::text \(Self.waiting) AND wait_event = 'SyncRep'",
            in: "upstream"
        )
    }

    private func killBackend() async throws {
        let cluster = nodes[primary].cluster
        let found = try await cluster.texts(
            "SELECT pid::text \(Self.waiting) AND wait_event = 'SyncRep' LIMIT 1",
            in: "upstream"
        )
        guard let id = found.first.flatMap({ Int32($0) }) else {
            throw WaitedTooLong(description: "no backend waits")
        }
        // The server takes every session down with it and recovers.
        Glibc.kill(id, SIGKILL)
        try await waitUntil("the primary has recovered") {
            guard Glibc.kill(id, 0) != 0 else { return false }
            return (try? await cluster.texts("SELECT 'here'", in: "upstream")) == ["here"]
        }
    }

    private func stopPrimary() {
        guard let server = nodes[primary].cluster.processID else { return }
        // The server first: it starts no more then.
        Glibc.kill(server, SIGSTOP)
        nodes[primary].stopped = children(of: server)
        for child in nodes[primary].stopped { Glibc.kill(child, SIGSTOP) }
    }

    private func children(of parent: Int32) -> [Int32] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return all.compactMap(Int32.init).filter { id in
            // The parent's id is the second field behind the name, which stands in parentheses.
            let line = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8)
            let fields = line?.split(separator: ")").last?.split(separator: " ") ?? []
            return fields.count > 1 && Int32(fields[1]) == parent
        }
    }

    private func fillPool() async throws {
        let settings = try PostgresSettings(url: poolers[primary].url(Self.databases[1]))
        for _ in 0..<Pgbouncer.poolSize {
            let holder = try await PostgresConnection.open(settings)
            try await holder.run { holder throws(PostgresError) in try holder.script("BEGIN") }
            holders.append(holder)
        }
    }

    private func releasePool() async {
        for holder in holders { await holder.close() }
        holders = []
    }

    private func restore() async throws {
        await releasePool()
        if nodes[standby].cluster.processID == nil { try nodes[standby].cluster.restart() }
        replication.restore()
        for way in ways { way.restore() }
    }

    // MARK: Making whole

    /// Makes the primary of before a standby of what has taken over; both databases must be at rest.
    func reseed() async throws {
        await releasePool()
        end(standby)
        foldersMade += 1
        let folder = URL(filePath: Self.root + "-\(foldersMade)")
        let cluster = try LocalCluster.startStandby(of: nodes[primary].cluster, in: folder, Self.options)
        nodes[standby].cluster = cluster
        nodes[standby].stopped = []
        nodes[standby].direct.lead(to: cluster.socketPath)
        nodes[standby].pooled.lead(to: cluster.socketPath)
        try await replicate()
    }

    /// Leads replication through the link and makes it synchronous.
    private func replicate() async throws {
        replication.cut()
        replication.lead(to: nodes[primary].cluster.socketPath)
        for node in nodes {
            for way in [node.direct, node.pooled] {
                way.restore()
                try await way.listen()
            }
        }
        replication.restore()
        let address =
            "host=127.0.0.1 port=\(replication.port) user=upstream application_name=link sslmode=disable gssencmode=disable"
        for statement in ["ALTER SYSTEM SET primary_conninfo = '\(address)'", "SELECT pg_reload_conf()"] {
            try await nodes[standby].cluster.script(statement, in: "upstream")
        }
        for statement in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
            try await nodes[primary].cluster.script(statement, in: "upstream")
        }
        try await waitUntilReplicated()
        // Commits wait from when the checkpointer has read the setting, which it has before it does anything else.
        try await nodes[primary].cluster.script("CHECKPOINT", in: "upstream")
    }

    /// Waits until the standby confirms commits over the link.
    func waitUntilReplicated() async throws {
        let cluster = nodes[primary].cluster
        try await waitUntil("the standby confirms commits over the link") {
            try await cluster.texts(
                """
                SELECT 'yes' FROM pg_stat_replication
                WHERE sync_state = 'sync' AND state = 'streaming' AND application_name = 'link'
                """,
                in: "upstream"
            ).count == 1
        }
    }

    private func end(_ index: Int) {
        let node = nodes[index]
        // Where all are stopped, none can act on the server's end: each is ended.
        for child in node.stopped { Glibc.kill(child, SIGKILL) }
        node.cluster.kill()
        try? FileManager.default.removeItem(at: node.cluster.folder)
    }
}

extension LocalCluster {
    /// Where clients connect.
    var socketPath: String { socketFolder.appending(path: ".s.PGSQL.5432").path }

    /// How to reach one of its databases.
    func url(_ database: String) -> String {
        url.replacingOccurrences(of: "/upstream?", with: "/\(database)?") + "&application_name=failover-test"
    }

    /// The first column of a query, in a session of its own.
    func texts(_ sql: String, in database: String) async throws -> [String] {
        try await FailoverTests.texts(sql, at: url(database))
    }

    /// Runs one statement, in a session of its own.
    func script(_ sql: String, in database: String) async throws {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url(database)))
        try await connection.run { connection throws(PostgresError) in try connection.script(sql) }
        await connection.close()
    }

    /// When a first transaction that writes is confirmed, tried over and over.
    func firstCommit(limit: Duration) async throws -> ContinuousClock.Instant {
        var settings = try PostgresSettings(url: url("upstream"))
        settings.statementTimeout = 120_000
        return try await retry(every: .milliseconds(2), limit: limit) {
            let connection = try await PostgresConnection.open(settings)
            try await connection.run { connection throws(PostgresError) in
                try connection.script("INSERT INTO probe DEFAULT VALUES")
            }
            let now = ContinuousClock.now
            await connection.close()
            return now
        }
    }
}
