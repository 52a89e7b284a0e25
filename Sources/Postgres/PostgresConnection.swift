import CLibPQ
import Glibc
import Vocabulary

/// One session with the server, on a thread of its own.
///
/// Everything goes through ``run(_:)``: its body runs on that thread, where the calls are synchronous, so nothing can
/// come between the statements of a transaction. Cancelling the task that called ``run(_:)`` cancels the statement.
package actor PostgresConnection {
    nonisolated private let thread: PostgresThread
    nonisolated let waker: Waker
    nonisolated package let settings: PostgresSettings

    var handle: ConnectionHandle?
    var cancelHandle: CancelHandle?
    private var prepared: Set<String> = []
    nonisolated let mark: BackendMark
    nonisolated let onStandbyWait: (@Sendable () -> Void)?
    nonisolated let onWarning: (@Sendable (ServerWarning) -> Void)?
    /// How long a statement of the current transaction may take, in milliseconds; nil for what ``settings`` say.
    var statementLimit: Int?

    /// Whether a pooler that may change the server session between transactions stands in between.
    ///
    /// Then no session state is kept: no prepared statements, no `SET`, no LISTEN.
    package private(set) var isPooled: Bool
    /// Whether a statement outside of a transaction sees what was committed before it, as handlers' subscriptions, and runs under
    /// our parameters.
    ///
    /// False where the server's, or the role's, defaults are others, and ``settings`` don't ask for these or a pooler is in
    /// between.
    package private(set) var isSafeAlone: Bool

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.executor.asUnownedSerialExecutor() }

    /// Connects; cancelling the task ends the wait at once.
    ///
    /// - Parameters:
    ///   - settings: What to connect to.
    ///   - explainsRefusal: Whether a server that refuses is asked a second time, so that the error has its SQLSTATE; not for
    ///     who tries again and again.
    /// - Throws: ``PostgresError``: no server, refused (with the SQLSTATE where the server gave one), a server whose encoding
    ///   is not UTF-8, or, for a writer, one that takes
    ///   no writes.
    /// - Returns: The connection, as it stands.
    package static func open(
        _ settings: PostgresSettings,
        explainsRefusal: Bool = true
    ) async throws(PostgresError) -> PostgresConnection {
        let connector = HostConnector(settings, explainsRefusal: explainsRefusal)
        let session = try await connector.open(waitsForSilentHosts: true)
        return try PostgresConnection(settings, session, on: PostgresThread())
    }

    /// Takes an opened session over, on a thread that this connection shares with its client.
    ///
    /// - Parameters:
    ///   - settings: What the session was opened with.
    ///   - session: The session.
    ///   - thread: The thread to use it on.
    ///   - onStandbyWait: Is called when a statement is found waiting for a standby.
    ///   - onWarning: Is called after a statement that succeeded, where the server sent a warning.
    /// - Throws: ``PostgresError`` of class `local`.
    init(
        _ settings: PostgresSettings,
        _ session: OpenedSession,
        on thread: PostgresThread,
        onStandbyWait: (@Sendable () -> Void)? = nil,
        onWarning: (@Sendable (ServerWarning) -> Void)? = nil
    ) throws(PostgresError) {
        guard let waker = Waker() else {
            throw PostgresError(.local, "no file descriptor left for the database connection")
        }
        self.settings = settings
        self.waker = waker
        self.thread = thread
        self.onStandbyWait = onStandbyWait
        self.onWarning = onWarning
        isPooled = session.isPooled
        isSafeAlone = session.isSafeAlone
        handle = session.handle
        cancelHandle = CancelHandle(session.handle)
        // Behind a pooler the process id is another's by the next transaction: our statements carry a name of their own.
        mark = BackendMark(
            backend: session.backend,
            comment: session.isPooled
                ? "/* upstream-worker \(String(UInt64.random(in: 0...UInt64.max), radix: 16)) */" : nil
        )
    }

    /// Whether the session stands, as far as we know.
    package var isOpen: Bool { handle.map { !$0.isBad } ?? false }

    /// Ends the session.
    package func close() {
        cancelHandle = nil
        handle = nil
        prepared = []
    }

    /// Runs statements on the connection's thread.
    package nonisolated func run<T: Sendable, E: Error>(
        _ body: @Sendable (isolated PostgresConnection) throws(E) -> T
    ) async throws(E) -> T {
        let result: Result<T, E> = await withTaskCancellationHandler {
            await perform(body)
        } onCancel: {
            waker.wake()
        }
        return try result.get()
    }

    private func perform<T: Sendable, E: Error>(
        _ body: @Sendable (isolated PostgresConnection) throws(E) -> T
    ) -> Result<T, E> {
        do throws(E) {
            return .success(try body(self))
        } catch {
            return .failure(error)
        }
    }

    // MARK: Statements, inside `run`

    /// Runs a statement that is worth preparing, and returns its rows.
    package func execute(
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) -> PostgresResult {
        guard !isPooled else { return try query(statement.sql, parameters) }
        do throws(PostgresError) {
            if !prepared.contains(statement.name) { try prepare(statement, parameters) }
            let connection = try live()
            try submit(connection) {
                parameters.withArguments { values, lengths, formats in
                    PQsendQueryPrepared(
                        connection.pointer,
                        statement.name,
                        Int32(values.count),
                        values.baseAddress,
                        lengths.baseAddress,
                        formats.baseAddress,
                        1
                    )
                }
            }
            return try finish(connection)
        } catch  where ["26000", "42P05", "0A000"].contains(error.sqlState ?? "") && !isInTransaction {
            // The name is gone, or taken, because sessions are swapped under us; or a migration changed the result's
            // type. Nothing has run: the text itself always works.
            prepared.remove(statement.name)
            return try query(statement.sql, parameters)
        }
    }

    /// Runs a statement once, without preparing it, and returns its rows.
    package func query(
        _ sql: String,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) throws(PostgresError) -> PostgresResult {
        let connection = try live()
        let sql = marked(sql)
        try submit(connection) {
            parameters.withArguments { values, lengths, formats in
                parameters.withTypes { types in
                    PQsendQueryParams(
                        connection.pointer,
                        sql,
                        Int32(values.count),
                        types.baseAddress,
                        values.baseAddress,
                        lengths.baseAddress,
                        formats.baseAddress,
                        1
                    )
                }
            }
        }
        return try finish(connection)
    }

    /// Runs a text of any number of statements, which see no parameters and return nothing.
    ///
    /// They form one transaction, unless the text says otherwise.
    package func script(_ sql: String) throws(PostgresError) {
        let connection = try live()
        let sql = marked(sql)
        try submit(connection) { PQsendQuery(connection.pointer, sql) }
        _ = try finish(connection)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    ///
    /// - Parameters:
    ///   - thenResetting: Whether nothing that the body left in the session outlives the transaction, for a body that calls code
    ///     which is not ours: role and parameters, temporary tables, advisory locks, LISTEN, prepared statements, cursors.
    ///   - body: Runs the statements.
    /// - Throws: What `body` throws, or what PostgreSQL says to the transaction itself.
    /// - Returns: What `body` returned.
    package func transaction<T, Failure: StatementFailure>(
        thenResetting: Bool = false,
        _ body: (isolated PostgresConnection) throws(Failure) -> T
    ) throws(Failure) -> T {
        try Failure.catching { () throws(PostgresError) in try begin() }
        defer { statementLimit = nil }
        let value: T
        do throws(Failure) {
            value = try body(self)
        } catch {
            rollBack(thenResetting: thenResetting)
            throw error
        }
        try Failure.catching { () throws(PostgresError) in try commit(thenResetting: thenResetting) }
        return value
    }

    /// Runs a statement that is worth preparing under our parameters: in a transaction of its own where the session's are others.
    package func executeSafely(
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) -> PostgresResult {
        guard !isSafeAlone, !isInTransaction else { return try execute(statement, parameters) }
        try begin()
        let result: PostgresResult
        do throws(PostgresError) {
            result = try execute(statement, parameters)
        } catch {
            rollBack(thenResetting: false)
            throw error
        }
        try commit(thenResetting: false)
        return result
    }

    /// Begins a transaction; behind a pooler the parameters can't be set for the session, so they go with each.
    ///
    /// Where that fails, as when somebody cancels it, it leaves no transaction: nothing could be done in one, and nobody would end it.
    ///
    /// - Parameter further: Statements to go with it, each behind a semicolon.
    /// - Throws: ``PostgresError``, as ``script(_:)`` does.
    package func begin(_ further: String = "") throws(PostgresError) {
        do throws(PostgresError) {
            try script("BEGIN" + (isPooled ? "; " + parameters("SET LOCAL") : "") + further)
        } catch {
            rollBack(thenResetting: false)
            throw error
        }
    }

    private func rollBack(thenResetting: Bool) {
        guard isInTransaction || thenResetting && isOpen else { return }
        // Locks of the session and prepared statements stay after a rollback, too.
        let further = thenResetting ? "; " + resetting : ""
        do throws(PostgresError) { try script("ROLLBACK" + further) } catch { close() }
    }

    /// Commits and resets in one round trip, the commit first: under the parameters that the transaction set for itself.
    private func commit(thenResetting: Bool) throws(PostgresError) {
        do throws(PostgresError) {
            try script(thenResetting ? "COMMIT; " + resetting : "COMMIT")
        } catch {
            // Not sent, as the task was cancelled: the server would hold the transaction's locks, and whoever is lent the
            // session next would commit it.
            if isInTransaction { close() }
            if thenResetting, isOpen { do throws(PostgresError) { try script(resetting) } catch { close() } }
            throw error
        }
    }

    /// Runs one statement with the parameters that ``settings`` ask for, which behind a pooler come with a transaction.
    package func withParameters<T>(
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        isPooled && !isInTransaction ? try transaction(body) : try body(self)
    }

    /// Gives the statements of the transaction another limit than ``settings``, here and on the server.
    ///
    /// - Parameters:
    ///   - milliseconds: The limit of each, from 1.
    ///   - sql: A script to go with it.
    /// - Throws: ``PostgresError``, as ``script(_:)`` does.
    package func limitStatements(milliseconds: Int, _ sql: String) throws(PostgresError) {
        try script("SET LOCAL statement_timeout = \(milliseconds); " + sql)
        statementLimit = milliseconds
    }

    // MARK: Inside

    /// Takes back what a transaction left in the session; behind a pooler our own parameters come with each transaction.
    ///
    /// What DISCARD ALL does, but for the statements that are prepared by protocol: ours, and a pooler's. Role and authorization
    /// come first, since the rest is done with the session's own rights.
    private var resetting: String {
        """
        RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); \
        DISCARD SEQUENCES; DISCARD TEMP; DO $$
        DECLARE statement text;
        BEGIN
            FOR statement IN SELECT s.name FROM pg_catalog.pg_prepared_statements AS s WHERE s.from_sql LOOP
                EXECUTE pg_catalog.format('DEALLOCATE %I', statement);
            END LOOP;
        END $$
        """ + (isPooled ? "" : "; " + parameters("SET SESSION"))
    }

    func parameters(_ command: String) -> String {
        settings.parameters(command, version: handle.map { PQserverVersion($0.pointer) } ?? 0)
    }

    private func marked(_ sql: String) -> String { mark.comment.map { "\($0) \(sql)" } ?? sql }

    package var isInTransaction: Bool {
        guard let handle else { return false }
        let status = PQtransactionStatus(handle.pointer)
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR
    }

    func live() throws(PostgresError) -> ConnectionHandle {
        guard let handle else { throw PostgresError(.closed, "the database connection is closed") }
        return handle
    }

    private func prepare(
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) {
        let connection = try live()
        try submit(connection) {
            parameters.withTypes { types in
                PQsendPrepare(
                    connection.pointer,
                    statement.name,
                    statement.sql,
                    Int32(types.count),
                    types.baseAddress
                )
            }
        }
        _ = try finish(connection)
        prepared.insert(statement.name)
    }
}
