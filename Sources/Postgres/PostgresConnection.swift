import CLibPQ
package import Vocabulary

/// A session with the server, on its own thread.
///
/// All work goes through ``run(_:)``: its body runs on that thread, where calls are synchronous, so nothing comes
/// between the statements of a transaction. Cancelling the task that called ``run(_:)`` cancels the statement.
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
    /// The statement limit of the current transaction in milliseconds; nil for that of ``settings``.
    var statementLimit: Int?
    /// The channels to notify once the current transaction has committed.
    var channels: Set<String> = []

    /// Whether a pooler that may change the server session between transactions is in between.
    ///
    /// Then no session state is kept: no prepared statements, no `SET`, no LISTEN.
    package var isPooled: Bool { mark.isPooled }
    /// Whether a statement outside a transaction runs under our parameters and sees what was committed before it, such
    /// as handlers' subscriptions.
    ///
    /// False if the defaults of server or role differ and ``settings`` can't override them because of a pooler.
    package let isSafeAlone: Bool

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.executor.asUnownedSerialExecutor() }

    /// Connects; cancelling the task ends the wait at once.
    ///
    /// `explainsRefusal` connects again after a refusal, so that the error has its SQLSTATE; not for callers that
    /// retry. Also throws for a server whose encoding is not UTF-8 and, for a writer, for one that takes no writes.
    package static func open(
        _ settings: PostgresSettings,
        explainsRefusal: Bool = true
    ) async throws(PostgresError) -> PostgresConnection {
        let connector = HostConnector(settings, explainsRefusal: explainsRefusal)
        let session = try await connector.open(waitsForSilentHosts: true)
        return try PostgresConnection(settings, session, on: PostgresThread())
    }

    /// Takes over an opened session, on a thread shared with the client; throws only if no file descriptor is left.
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
        isSafeAlone = session.isSafeAlone
        handle = session.handle
        cancelHandle = CancelHandle(session.handle)
        mark = session.mark
    }

    /// Whether the session is open, as far as we know.
    package var isOpen: Bool { handle.map { !$0.isBad } ?? false }

    package func close() {
        cancelHandle = nil
        handle = nil
        prepared = []
    }

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

    /// Runs statements in a transaction, as ``run(_:)`` and ``transaction(thenResetting:_:)`` do.
    package nonisolated func inTransaction<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        try await run { connection throws(PostgresError) in try connection.transaction(body) }
    }

    private func perform<T: Sendable, E: Error>(
        _ body: @Sendable (isolated PostgresConnection) throws(E) -> T
    ) -> Result<T, E> {
        Result { () throws(E) in try body(self) }
    }

    /// Prepares a statement once, runs it and returns its rows.
    package func execute(
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) -> PostgresResult {
        guard !isPooled else { return try query(statement.sql, parameters) }
        do throws(PostgresError) {
            if !prepared.contains(statement.name) { try prepare(statement, parameters) }
            let connection = try live()
            return try ask(connection) {
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
        } catch  where ["26000", "42P05", "0A000"].contains(error.sqlState ?? "") && !isInTransaction {
            // The name is gone or taken, because sessions are swapped under us, or a migration changed the result's
            // type. Nothing has run: the plain text always works.
            prepared.remove(statement.name)
            return try query(statement.sql, parameters)
        }
    }

    /// Runs a statement without preparing it, and returns its rows.
    package func query(
        _ sql: String,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) throws(PostgresError) -> PostgresResult {
        let connection = try live()
        let sql = marked(sql)
        return try ask(connection) {
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
    }

    /// Sends a statement and waits for its result; a reader's again if a standby cancelled it.
    private func ask(_ connection: ConnectionHandle, _ send: () -> Int32) throws(PostgresError) -> PostgresResult {
        try submit(connection, send)
        do throws(PostgresError) {
            return try finish(connection)
        } catch  where mayRepeat(after: error) {
            try submit(connection, send)
            return try finish(connection)
        }
    }

    /// Whether a standby cancelled what a reader asked, outside a transaction: it changed nothing.
    private func mayRepeat(after error: PostgresError) -> Bool {
        settings.isReader && error.failureClass == .rollback && !isInTransaction && isOpen
    }

    /// Runs a script of any number of statements without parameters or rows.
    ///
    /// They form one transaction, unless the script says otherwise.
    package func script(_ sql: String) throws(PostgresError) { _ = try lastResult(of: sql) }

    private func lastResult(of script: String) throws(PostgresError) -> PostgresResult {
        let connection = try live()
        let script = marked(script)
        try submit(connection) { PQsendQuery(connection.pointer, script) }
        return try finish(connection)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    ///
    /// `thenResetting` resets the session afterwards, for a body that calls foreign code: role and parameters,
    /// temporary tables, advisory locks, LISTEN, prepared statements, cursors. A reader's runs again if a standby
    /// cancelled it.
    package func transaction<T>(
        thenResetting: Bool = false,
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        do throws(PostgresError) {
            return try transactionOnce(thenResetting: thenResetting, body)
        } catch  where mayRepeat(after: error) {
            return try transactionOnce(thenResetting: thenResetting, body)
        }
    }

    /// Goes on in a transaction as the role that signed in: any role may see and end its own sessions, but not another
    /// one that settings of role or database had the session take on.
    package func becomeOurselves() throws(PostgresError) { try script(BackendMark.asOurselves) }

    private func transactionOnce<T>(
        thenResetting: Bool,
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        try begin()
        defer { (statementLimit, channels) = (nil, []) }
        let value: T
        do throws(PostgresError) {
            value = try body(self)
        } catch {
            rollBack(thenResetting: thenResetting)
            throw error
        }
        try commit(thenResetting: thenResetting)
        notifyAll()
        return value
    }

    /// Runs `body` in a transaction that is always rolled back, to find out whether its statements would work.
    ///
    /// Waits 5 s at most for a lock. Sequence values stay used.
    package nonisolated func trial<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        try await run { connection throws(PostgresError) in
            try connection.begin("; SET LOCAL lock_timeout = 5000")
            defer { connection.channels = [] }
            let result = Result { () throws(PostgresError) in try body(connection) }
            if connection.isInTransaction {
                // Otherwise the session's next user could commit what was not rolled back.
                do throws(PostgresError) { try connection.script("ROLLBACK") } catch { connection.close() }
            }
            return try result.get()
        }
    }

    /// Runs a prepared statement under our parameters, in its own transaction if the session lacks them.
    package func executeSafely(
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) -> PostgresResult {
        guard !isSafeAlone, !isInTransaction else { return try execute(statement, parameters) }
        return try transaction { connection throws(PostgresError) in try connection.execute(statement, parameters) }
    }

    /// Begins a transaction; behind a pooler, with our parameters, which can't be set for the session.
    ///
    /// A failure, such as a cancel, leaves no transaction open, which nobody would end. `further` has statements to
    /// send along, each behind a semicolon.
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
        // Session locks and prepared statements survive a rollback.
        do throws(PostgresError) {
            if thenResetting { try reset(after: "ROLLBACK; ") } else { try script("ROLLBACK") }
        } catch { close() }
    }

    /// Commits and resets in one round trip; the commit comes first, under the transaction's own parameters.
    private func commit(thenResetting: Bool) throws(PostgresError) {
        do throws(PostgresError) {
            if thenResetting { try reset(after: "COMMIT; ") } else { try script("COMMIT") }
        } catch {
            // Not sent, since the task was cancelled: the server would hold the transaction's locks, and the session's
            // next user would commit it.
            if isInTransaction { close() }
            if thenResetting, isOpen { do throws(PostgresError) { try reset() } catch { close() } }
            throw error
        }
    }

    /// Runs one statement under the parameters of ``settings``, which behind a pooler takes a transaction.
    package func withParameters<T>(
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        isPooled && !isInTransaction ? try transaction(body) : try body(self)
    }

    /// Sets another limit, from 1 ms, for the transaction's statements, here and on the server, and runs a script.
    package func limitStatements(milliseconds: Int, _ sql: String) throws(PostgresError) {
        try script("SET LOCAL statement_timeout = \(milliseconds); " + sql)
        statementLimit = milliseconds
    }

    /// Ends the transaction, if `end` does, and resets what it left in the session.
    ///
    /// Statements of ours that foreign code has deallocated are prepared again: in a transaction each would fail.
    private func reset(after end: String = "") throws(PostgresError) {
        let result = try lastResult(of: end + resetting)
        guard !isPooled else { return }
        // The transaction's outcome is known by now: what follows says nothing about it.
        do throws(PostgresError) {
            guard try result.value(String.self) != "\(prepared.count)" else { return }
            try script("DEALLOCATE ALL")
            prepared = []
        } catch { close() }
    }

    /// Resets what a transaction left in the session, and counts our prepared statements; behind a pooler our own
    /// parameters come with each transaction.
    ///
    /// Does what DISCARD ALL does, except for statements prepared by protocol: ours, and a pooler's. Role and
    /// authorization come first, so that the rest runs with the session's own rights.
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
        """ + (isPooled ? "" : "; " + parameters("SET SESSION") + "; " + Self.countPrepared)
    }

    private static let countPrepared =
        "SELECT count(*)::text FROM pg_catalog.pg_prepared_statements WHERE NOT from_sql"

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

    /// Records that foreign code has deallocated all prepared statements: each is prepared again when it runs next.
    package func forgetPrepared() { prepared = [] }

    /// Reads the server's clock, from which ages are counted back.
    package func databaseTime() throws(PostgresError) -> Timestamp {
        try run("SELECT clock_timestamp()").value()
    }

    /// Reads the server's clock, from which ages are counted back.
    package nonisolated func databaseTime() async throws(PostgresError) -> Timestamp {
        try await run { connection throws(PostgresError) in try connection.databaseTime() }
    }
}
