import CLibPQ
import Glibc
import Vocabulary

/// The keywords and values that choose one of the URL's hosts; if empty, libpq chooses.
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

/// A newly opened session on its way to its thread; ends with its owner.
struct OpenedSession: @unchecked Sendable {
    let handle: ConnectionHandle
    let mark: BackendMark
    let isSafeAlone: Bool
    let clock: ClockReading
}

/// Opens a session: libpq's blocking calls, including name resolution, and the first queries.
///
/// Run it on a separate thread that the waiter may abandon, so that a silent name server or database holds up nobody.
struct SessionOpening: Sendable {
    let settings: PostgresSettings
    /// One of the URL's hosts; empty for libpq's choice.
    let host: HostChoice
    /// Whether to connect again after a refusal, to learn its SQLSTATE.
    let explainsRefusal: Bool

    func open() throws(PostgresError) -> OpenedSession {
        do throws(PostgresError) {
            return try greeted(connect())
        } catch {
            // libpq was told to take whichever answers first.
            if error.failureClass == .readOnly, settings.mayHaveOtherHosts,
                let session = try? greeted(connect([("target_session_attrs", "read-write")]))
            {
                return session
            }
            throw engine(behind: error)?.refusal ?? error
        }
    }

    /// The engine that may not know what our first queries ask for; nil where something else failed.
    private func engine(behind error: PostgresError) -> DatabaseEngine? {
        guard error.sqlState != nil, [.schema, .data, .other, .system].contains(error.failureClass) else { return nil }
        // The failed session may hold the rest of its answer.
        let result = try? connect().ask("SELECT version()", milliseconds: settings.connectTimeout)
        return (result?.text(0, 0)).map { DatabaseEngine(version: $0) }
    }

    private func greeted(_ connection: ConnectionHandle) throws(PostgresError) -> OpenedSession {
        let encoding = connection.parameterStatus("server_encoding") ?? "unknown"
        guard encoding == "UTF8" else {
            throw PostgresError(
                .schema,
                "the database's encoding is \(encoding), and messages need UTF8: "
                    + "create it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
        }
        let asked = ClockReading.Moment.now
        let greeting = BackendMark.asOurselves + Self.greeting
        let result = try connection.ask(greeting, milliseconds: settings.connectTimeout)
        let answered = ClockReading.Moment.now
        if let refusal = result.text(0, 6).flatMap({ DatabaseEngine(version: $0).refusal }) { throw refusal }
        guard let time = SessionOpening.integer(result, 4) else {
            throw PostgresError(.schema, "the server does not tell its time")
        }
        let clock = ClockReading(asked: asked, database: Timestamp(microseconds: time), answered: answered)
        if settings.isWriter {
            // PostgreSQL's own wording for a write there.
            if result.text(0, 2) == "t" {
                throw PostgresError(.readOnly, "the server is a standby, in recovery", sqlState: "25006")
            }
            if result.text(0, 3) == "on" {
                throw PostgresError(.readOnly, "the server is in read-only mode", sqlState: "25006")
            }
        }
        let processID = SessionOpening.integer(result, 0) ?? 0
        // A pooler gives its clients its own process ids.
        let isPooled = processID != Int64(PQbackendPID(connection.pointer))
        if !isPooled {
            let script = settings.parameters("SET SESSION", version: PQserverVersion(connection.pointer))
            _ = try connection.ask(script, milliseconds: settings.connectTimeout)
        }
        let isSafeAlone = !isPooled || result.text(0, 5) == "t"
        let mark = BackendMark(
            processID: processID,
            startedAt: SessionOpening.integer(result, 1) ?? 0,
            comment: isPooled ? "/* upstream-worker \(String(UInt64.random(in: 0...UInt64.max), radix: 16)) */" : nil
        )
        return OpenedSession(handle: connection, mark: mark, isSafeAlone: isSafeAlone, clock: clock)
    }

    private func connect(_ others: [(String, String)] = []) throws(PostgresError) -> ConnectionHandle {
        let parameters = settings.connectionParameters + host.parameters + others
        do throws(PostgresError) {
            return try SessionOpening.connect(parameters)
        } catch {
            guard explainsRefusal, error.failureClass == .connection else { throw error }
            throw ConnectionRefusal.explain(parameters, error, milliseconds: settings.connectTimeout)
        }
    }

    /// In one round trip: the server process and its start, whether it takes writes, the time, whether a statement outside
    /// a transaction runs under our parameters, and the version.
    ///
    /// A standby refuses everything at a serializable level.
    private static let greeting = """
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        SELECT pg_backend_pid(),
            (SELECT (extract(epoch FROM backend_start) * 1000000)::int8
            FROM pg_stat_activity WHERE pid = pg_backend_pid()),
            pg_is_in_recovery(), current_setting('transaction_read_only'),
            (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
            NOT EXISTS (
                SELECT FROM (VALUES \(PostgresSettings.safeguards.map { "('\($0)', '\($1)')" }.joined(separator: ", ")))
                    AS wanted (name, value)
                WHERE coalesce(current_setting(name, true), value) <> value
            ),
            version()
        """

    /// A number of the first row, of a result in text form.
    static func integer(_ result: PostgresResult, _ column: Int) -> Int64? {
        result.text(0, column).flatMap { Int64($0) }
    }

    /// Connects and blocks, up to `connect_timeout` for each address.
    static func connect(_ list: [(String, String)]) throws(PostgresError) -> ConnectionHandle {
        // We own the result in any state; null only when out of memory.
        let pointer = withKeywords(list) { PQconnectdbParams($0, $1, 1) }
        guard let pointer else { throw PostgresError(.local, "out of memory for a database connection") }
        let connection = ConnectionHandle(owning: pointer)
        guard !connection.isBad else { throw PostgresError(.connection, connection.errorMessage) }
        guard PQsetnonblocking(pointer, 1) == 0 else { throw PostgresError(.connection, connection.errorMessage) }
        return connection
    }
}

extension ConnectionHandle {
    /// Waits until the socket is ready; poll's result.
    func wait(for events: Int32, milliseconds: Int64) -> Int32 {
        var descriptor = pollfd(fd: PQsocket(pointer), events: Int16(events), revents: 0)
        return poll(&descriptor, 1, Int32(clamping: milliseconds))
    }

    /// Waits for the running command's next result by `wait`, which returns now and then; nil after the last.
    func nextResult(
        _ wait: (_ forWriting: Bool) throws(PostgresError) -> Void
    ) throws(PostgresError) -> PostgresResult? {
        while true {
            let unsent = PQflush(pointer)
            if unsent == -1 || (unsent == 0 && PQisBusy(pointer) == 0) { break }
            try wait(unsent == 1)
            guard PQconsumeInput(pointer) == 1 else { break }
        }
        // We own each result.
        return PQgetResult(pointer).map(PostgresResult.init(owning:))
    }

    /// Runs a quick text and returns the last result in text form; after a failure the connection is unusable.
    func ask(_ sql: String, milliseconds: Int) throws(PostgresError) -> PostgresResult {
        let deadline = monotonicMilliseconds() + Int64(milliseconds)
        guard PQsendQuery(pointer, sql) == 1 else { throw PostgresError(.connection, errorMessage) }
        func wait(forWriting: Bool) throws(PostgresError) {
            let left = deadline - monotonicMilliseconds()
            guard left > 0 else { throw PostgresError(.deadline, "the server connects and does not answer") }
            _ = self.wait(for: POLLIN | (forWriting ? POLLOUT : 0), milliseconds: left)
        }
        var last: PostgresResult?
        while let result = try nextResult(wait) {
            if let error = result.error { throw error }
            last = result
        }
        guard let last, !isBad else { throw PostgresError(.connection, errorMessage) }
        return last
    }
}
