import CLibPQ
import Glibc
import Vocabulary

/// One of the hosts that a URL names, as keywords and values that choose it alone; without any, libpq chooses.
struct HostChoice: Sendable, Equatable {
    var host: String?
    var address: String?
    var port: String?

    var parameters: [(String, String)] {
        [("host", host), ("hostaddr", address), ("port", port)].compactMap { keyword, value in
            value.map { (keyword, $0) }
        }
    }
}

/// Who runs our statements on the server.
struct BackendIdentity: Sendable, Equatable {
    /// The process id on the server.
    var processID: Int64
    /// When the session began there, in microseconds since 1970-01-01 UTC: process ids come again.
    var startedAt: Int64
}

/// A session as it was opened, on its way to the thread that will use it.
///
/// Ends with its owner.
final class OpenedSession: @unchecked Sendable {
    let handle: ConnectionHandle
    /// Whether a pooler stands in between, which gives its clients process ids of its own.
    let isPooled: Bool
    /// See ``PostgresConnection/isSafeAlone``.
    let isSafeAlone: Bool
    /// Who it is on the server; behind a pooler the one that answered first.
    let backend: BackendIdentity
    /// What the server's clock showed.
    let clock: ClockReading

    init(
        _ handle: ConnectionHandle,
        isPooled: Bool,
        isSafeAlone: Bool,
        backend: BackendIdentity,
        clock: ClockReading
    ) {
        self.clock = clock
        self.handle = handle
        self.isPooled = isPooled
        self.isSafeAlone = isSafeAlone
        self.backend = backend
    }
}

/// Opening a session: libpq's blocking calls, name resolution among them, and the first questions to the server.
///
/// To be run on a thread of its own, which whoever waits may abandon: a name server or a database that says nothing then
/// holds up nobody.
struct SessionOpening: Sendable {
    let settings: PostgresSettings
    /// Which of the URL's hosts; nothing for libpq's own choice.
    let host: HostChoice
    /// How long to wait for each answer of the server, in milliseconds.
    let answerLimit: Int
    /// Whether a refusal is asked for once more, to learn its SQLSTATE.
    let explainsRefusal: Bool

    init(_ settings: PostgresSettings, host: HostChoice, explainsRefusal: Bool = false) {
        self.settings = settings
        self.host = host
        self.explainsRefusal = explainsRefusal
        answerLimit = settings.connectTimeout
    }

    func open() -> Result<OpenedSession, PostgresError> {
        do throws(PostgresError) {
            return .success(try opened())
        } catch {
            return .failure(error)
        }
    }

    private func opened() throws(PostgresError) -> OpenedSession {
        let connection = try connect()
        let encoding = connection.parameterStatus("server_encoding") ?? "unknown"
        guard encoding == "UTF8" else {
            throw PostgresError(
                .schema,
                "the database's encoding is \(encoding), and messages need UTF8: "
                    + "create it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
        }
        let asked = ClockReading.Moment.now
        let result = try connection.ask(Self.greeting, milliseconds: answerLimit)
        let answered = ClockReading.Moment.now
        guard let time = SessionOpening.integer(result, 5) else {
            throw PostgresError(.schema, "the server does not tell its time")
        }
        let clock = ClockReading(asked: asked, database: Timestamp(microseconds: time), answered: answered)
        let backend = BackendIdentity(
            processID: SessionOpening.integer(result, 0) ?? 0,
            startedAt: SessionOpening.integer(result, 1) ?? 0
        )
        if settings.isWriter {
            // In words that PostgreSQL itself uses for a write there.
            if result.text(0, 2) == "t" {
                throw PostgresError(.readOnly, "the server is a standby, in recovery", sqlState: "25006")
            }
            if result.text(0, 3) == "on" {
                throw PostgresError(.readOnly, "the server is in read-only mode", sqlState: "25006")
            }
        }
        let isPooled = backend.processID != Int64(PQbackendPID(connection.pointer))
        if !isPooled {
            let script = settings.parameters("SET SESSION", version: PQserverVersion(connection.pointer))
            _ = try connection.ask(script, milliseconds: answerLimit)
        }
        let isReadCommitted = result.text(0, 4) == "read committed" || settings.isReadCommitted && !isPooled
        let isSafeAlone = isReadCommitted && (!isPooled || result.text(0, 6) == "t")
        return OpenedSession(
            connection,
            isPooled: isPooled,
            isSafeAlone: isSafeAlone,
            backend: backend,
            clock: clock
        )
    }

    private func connect() throws(PostgresError) -> ConnectionHandle {
        let parameters = settings.connectionParameters + host.parameters
        do throws(PostgresError) {
            return try SessionOpening.connect(parameters)
        } catch {
            guard explainsRefusal, error.failureClass == .connection else { throw error }
            throw ConnectionRefusal.explain(parameters, error, milliseconds: answerLimit)
        }
    }

    /// One round: who serves us, since when, whether it takes writes, what a statement by itself sees, the time, and whether such
    /// a statement runs under our parameters.
    private static let greeting = """
        SELECT pg_backend_pid(),
            (SELECT (extract(epoch FROM backend_start) * 1000000)::int8
            FROM pg_stat_activity WHERE pid = pg_backend_pid()),
            pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('transaction_isolation'),
            (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
            NOT EXISTS (
                SELECT FROM (VALUES \(PostgresSettings.safeguards.map { "('\($0)', '\($1)')" }.joined(separator: ", ")))
                    AS wanted (name, value)
                WHERE coalesce(current_setting(name, true), value) <> value
            )
        """

    /// A number of the first row, of a result in text form.
    static func integer(_ result: PostgresResult, _ column: Int) -> Int64? {
        result.text(0, column).flatMap { Int64($0) }
    }

    /// Connects and waits, for as long as `connect_timeout` lets libpq wait for each address.
    static func connect(_ list: [(String, String)]) throws(PostgresError) -> ConnectionHandle {
        let pointer = withCStrings(list.map(\.0)) { keywords in
            withCStrings(list.map(\.1)) { values in
                // We own the result whatever its state; it is null only when memory is out.
                PQconnectdbParams(keywords, values, 1)
            }
        }
        guard let pointer else { throw PostgresError(.local, "out of memory for a database connection") }
        let connection = ConnectionHandle(owning: pointer)
        guard !connection.isBad else { throw PostgresError(.connection, connection.errorMessage) }
        guard PQsetnonblocking(pointer, 1) == 0 else { throw PostgresError(.connection, connection.errorMessage) }
        return connection
    }
}

extension ConnectionHandle {
    /// Runs a text that takes no time, and returns the last result, in text form; the connection is of no use after a
    /// failure.
    func ask(_ sql: String, milliseconds: Int) throws(PostgresError) -> PostgresResult {
        let deadline = monotonicMilliseconds() + Int64(milliseconds)
        guard PQsendQuery(pointer, sql) == 1 else { throw PostgresError(.connection, errorMessage) }
        var last: PostgresResult?
        while true {
            while true {
                let unsent = PQflush(pointer)
                if unsent == -1 || (unsent == 0 && PQisBusy(pointer) == 0) { break }
                let left = deadline - monotonicMilliseconds()
                guard left > 0 else { throw PostgresError(.deadline, "the server connects and does not answer") }
                let events = Int16(POLLIN) | (unsent == 1 ? Int16(POLLOUT) : 0)
                var descriptor = pollfd(fd: PQsocket(pointer), events: events, revents: 0)
                _ = poll(&descriptor, 1, Int32(clamping: left))
                guard PQconsumeInput(pointer) == 1 else { break }
            }
            // We own each result.
            guard let result = PQgetResult(pointer).map(PostgresResult.init(owning:)) else { break }
            if let error = result.error { throw error }
            last = result
        }
        guard let last, !isBad else { throw PostgresError(.connection, errorMessage) }
        return last
    }
}
