import CLibPQ
import Glibc
import Synchronization

/// Asks over another connection what became of a statement without an answer.
///
/// It connects to the very server that the statement went to: the same name may lead to another one by now. It runs on
/// its own thread, which is abandoned when it takes too long.
final class BackendProbe: Sendable {
    private let finding = Mutex<BackendFinding?>(nil)

    var result: BackendFinding? { finding.withLock { $0 } }

    /// Probes the session that does not answer, found by `who` on the server; wakes the waiter when there is a finding.
    init(_ settings: PostgresSettings, _ connection: ConnectionHandle, _ who: BackendMark, _ waker: Waker) {
        let list =
            settings.connectionParameters + connection.address + [("connect_timeout", "2")]
            // On a silent network, the kernel need not wait longer than we do.
            + [("tcp_user_timeout", "\(settings.probeLimit)"), ("application_name", "upstream-worker probe")]
        let (sql, limit) = (who.question, settings.probeLimit)
        let isPooled = who.isPooled
        let isStarted = startThread(name: "pg-probe") { [self] in
            let result = BackendProbe.probe(list, sql, limit, isPooled: isPooled)
            finding.withLock { $0 = result }
            waker.wake()
        }
        if !isStarted {
            finding.withLock { $0 = .unclear }
            waker.wake()
        }
    }

    private static func probe(_ list: [(String, String)], _ sql: String, _ limit: Int, isPooled: Bool) -> BackendFinding
    {
        // A later answer is too late.
        let deadline = monotonicMilliseconds() + Int64(limit - limit / 10)
        var session: ConnectionHandle?
        do throws(PostgresError) {
            let connection = try SessionOpening.connect(list)
            session = connection
            let result = try connection.ask(sql, milliseconds: Int(max(0, deadline - monotonicMilliseconds())))
            guard result.count > 0 else { return isPooled ? .idle : .gone }
            if result.text(0, 1) == "t" { return .waitsForStandby }
            guard let works = result.text(0, 0) else { return .unclear }
            return works == "t" ? .works : .idle
        } catch {
            // A server that is shutting down or starting has no sessions.
            if let state = error.sqlState {
                // A pooler that can't reach its server: our statement may wait in it for ever.
                if isPooled, state.hasPrefix("08") { return .silent }
                return state.hasPrefix("57") ? .gone : .unclear
            }
            guard let session else { return ping(list, isPooled: isPooled) }
            return isPooled && !session.isBad ? .silent : .unreachable
        }
    }

    /// Classifies a failed connect, for which libpq keeps no SQLSTATE: a refusal (such as too many connections) is an
    /// answer.
    private static func ping(_ list: [(String, String)], isPooled: Bool) -> BackendFinding {
        switch withKeywords(list, { PQpingParams($0, $1, 1) }) {
        // A pooler that can't reach its server refuses new clients and keeps the connected ones waiting.
        case PQPING_OK: return isPooled ? .silent : .unclear
        case PQPING_REJECT: return .gone
        default: return .unreachable
        }
    }
}

/// How to find a session on its server.
struct BackendMark: Sendable {
    /// Behind a pooler, of the process that answered first.
    let processID: Int64
    /// The start of the session in microseconds since 1970-01-01 UTC, since process ids are reused.
    let startedAt: Int64
    /// Behind a pooler, which may change the process with each transaction, the comment at the start of each of our
    /// statements; nil if the process id is ours.
    let comment: String?

    var isPooled: Bool { comment != nil }

    /// Begins a script that looks at our own sessions: any role may see them, but not another one, which the settings of
    /// role or database may have the session take on.
    static let asOurselves = "SET LOCAL ROLE NONE; "

    /// Asks whether the session is at work, and whether it waits for a standby or for a lock of a session that does.
    var question: String {
        let session =
            if let comment {
                "starts_with(a.query, '\(comment)') AND a.pid <> pg_backend_pid()"
            } else {
                "a.pid = \(processID) AND (extract(epoch FROM a.backend_start) * 1000000)::int8 = \(startedAt)"
            }
        return Self.asOurselves + """
            SELECT a.state NOT LIKE 'idle%',
                a.wait_event IS NOT DISTINCT FROM 'SyncRep' OR a.wait_event_type IS NOT DISTINCT FROM 'Lock' AND EXISTS (
                    SELECT FROM pg_stat_activity AS b
                    WHERE b.pid = ANY (pg_blocking_pids(a.pid)) AND b.wait_event = 'SyncRep')
            FROM pg_stat_activity AS a WHERE \(session)
            ORDER BY 1 DESC LIMIT 1
            """
    }
}

extension ConnectionHandle {
    /// The connected server, as keywords and values.
    var address: [(String, String)] {
        // libpq owns the texts; an empty value means none.
        [("host", PQhost(pointer)), ("hostaddr", PQhostaddr(pointer)), ("port", PQport(pointer))]
            .map { ($0.0, $0.1.map { String(cString: $0) } ?? "") }
    }

    /// Whether the kernel still holds bytes that the peer has not confirmed.
    var isUnsent: Bool {
        var count: Int32 = 0
        return ioctl(PQsocket(pointer), UInt(TIOCOUTQ), &count) == 0 && count > 0
    }
}
