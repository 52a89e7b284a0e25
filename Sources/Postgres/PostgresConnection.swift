import CLibPQ
import Glibc

/// One session with the server, on a thread of its own.
///
/// Everything goes through ``run(_:)``: its body runs on that thread, where the calls are synchronous, so nothing can
/// come between the statements of a transaction. Cancelling the task that called ``run(_:)`` cancels the statement.
package actor PostgresConnection {
    nonisolated private let thread: PostgresThread
    nonisolated private let waker: Waker
    nonisolated package let settings: PostgresSettings

    var handle: ConnectionHandle?
    private var cancelHandle: CancelHandle?
    private var prepared: Set<String> = []
    /// How long a statement of the current transaction may take, in milliseconds; nil for what ``settings`` say.
    private var statementLimit: Int?

    /// Whether a pooler that may change the server session between transactions stands in between.
    ///
    /// Then no session state is kept: no prepared statements, no `SET`, no LISTEN.
    package private(set) var isPooled = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.executor.asUnownedSerialExecutor() }

    /// Connects.
    ///
    /// - Throws: ``PostgresError``: no server, refused, or a server whose encoding is not UTF-8.
    package static func open(_ settings: PostgresSettings) async throws(PostgresError) -> PostgresConnection {
        try await open(settings, on: PostgresThread())
    }

    /// Connects, on a thread that this connection shares with its client.
    static func open(
        _ settings: PostgresSettings,
        on thread: PostgresThread
    ) async throws(PostgresError) -> PostgresConnection {
        guard let waker = Waker() else {
            throw PostgresError(.resources, "no file descriptor left for the database connection")
        }
        let connection = PostgresConnection(settings, waker, thread)
        try await connection.connect()
        return connection
    }

    private init(_ settings: PostgresSettings, _ waker: Waker, _ thread: PostgresThread) {
        self.settings = settings
        self.waker = waker
        self.thread = thread
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
        try submit(connection) { PQsendQuery(connection.pointer, sql) }
        _ = try finish(connection)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    package func transaction<T>(
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        // Behind a pooler the parameters can't be set for the session, so they go with each transaction.
        try script(isPooled ? "BEGIN; " + parameters("SET LOCAL") : "BEGIN")
        defer { statementLimit = nil }
        let value: T
        do throws(PostgresError) {
            value = try body(self)
        } catch {
            if isInTransaction {
                do throws(PostgresError) { try script("ROLLBACK") } catch { close() }
            }
            throw error
        }
        do throws(PostgresError) {
            try script("COMMIT")
        } catch {
            // Not sent, as the task was cancelled: the server would hold the transaction's locks, and whoever is lent the
            // session next would commit it.
            if isInTransaction { close() }
            throw error
        }
        return value
    }

    /// Runs one statement with the parameters that ``settings`` ask for, which behind a pooler come with a transaction.
    package func withParameters<T>(
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        isPooled ? try transaction(body) : try body(self)
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

    package var isInTransaction: Bool {
        guard let handle else { return false }
        let status = PQtransactionStatus(handle.pointer)
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR
    }

    func live() throws(PostgresError) -> ConnectionHandle {
        guard let handle else { throw PostgresError(.connection, "the database connection is closed") }
        return handle
    }

    private func connect() throws(PostgresError) {
        let list = settings.connectionParameters
        let pointer = withCStrings(list.map(\.0)) { keywords in
            withCStrings(list.map(\.1)) { values in
                // We own the result whatever its state; it is null only when memory is out.
                PQconnectdbParams(keywords, values, 1)
            }
        }
        guard let pointer else { throw PostgresError(.resources, "out of memory for a database connection") }
        let connection = ConnectionHandle(owning: pointer)
        guard !connection.isBad else { throw PostgresError(.connection, connection.errorMessage) }
        let encoding = connection.parameterStatus("server_encoding") ?? "unknown"
        guard encoding == "UTF8" else {
            throw PostgresError(
                .schema,
                "the database's encoding is \(encoding), and messages need UTF8: "
                    + "create it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
        }
        guard PQsetnonblocking(pointer, 1) == 0 else { throw PostgresError(.connection, connection.errorMessage) }
        // Notices (of IF NOT EXISTS, say) would go to stderr.
        _ = PQsetNoticeReceiver(pointer, { _, _ in }, nil)
        handle = connection
        cancelHandle = CancelHandle(connection)
        try prepareSession(connection)
    }

    /// A pooler makes up the process id it gives to its clients; a server tells its own.
    private func prepareSession(_ connection: ConnectionHandle) throws(PostgresError) {
        let result = try query("SELECT pg_backend_pid()")
        isPooled = result.integer(0, 0) != Int64(PQbackendPID(connection.pointer))
        if !isPooled { try script(parameters("SET SESSION")) }
    }

    /// Sets what ``settings`` ask of the server.
    private func parameters(_ command: String) -> String {
        var values = [
            ("statement_timeout", "\(settings.statementTimeout)"),
            ("lock_timeout", "\(settings.lockTimeout)"),
            ("idle_in_transaction_session_timeout", "\(settings.idleInTransactionTimeout)"),
        ]
        if settings.findsRowsByIndex {
            values += ["seqscan", "bitmapscan", "hashjoin", "mergejoin"].map { ("enable_\($0)", "off") }
        }
        return values.map { "\(command) \($0) = \($1)" }.joined(separator: "; ")
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

extension PostgresConnection {
    /// Hands a command to libpq; 0 from `send` is its failure.
    func submit(_ connection: ConnectionHandle, _ send: () -> Int32) throws(PostgresError) {
        guard !Task.isCancelled else {
            throw PostgresError(.timeout, "cancelled before the statement was sent", sqlState: "57014")
        }
        guard send() == 1 else {
            let message = connection.errorMessage
            close()
            throw PostgresError(.connection, message)
        }
    }

    /// Waits for the command's last result and returns it; the first failure wins.
    func finish(_ connection: ConnectionHandle) throws(PostgresError) -> PostgresResult {
        var last: PostgresResult?
        var failure: PostgresError?
        var wait = Patience(statementLimit ?? settings.statementTimeout, grace: settings.cancelGrace)
        while let result = try nextResult(connection, &wait) {
            if let error = result.error, failure == nil { failure = error }
            last = result
        }
        if wait.hasCancelled, cancelHandle?.waitForRequests(milliseconds: settings.cancelGrace) == false {
            close()
            throw failure ?? PostgresError(.connection, "the server does not deal with a request to cancel")
        }
        if connection.isBad {
            let message = connection.errorMessage
            close()
            throw failure ?? PostgresError(.connection, message)
        }
        if let failure { throw failure }
        guard let last else { throw PostgresError(.connection, "the server gave no result") }
        return last
    }

    /// Waits for the next result of the running command; nil after the last.
    func nextResult(
        _ connection: ConnectionHandle,
        _ patience: inout Patience
    ) throws(PostgresError) -> PostgresResult? {
        while true {
            let unsent = PQflush(connection.pointer)
            if unsent == -1 || (unsent == 0 && PQisBusy(connection.pointer) == 0) { break }
            try wait(connection, forWriting: unsent == 1, &patience)
            guard PQconsumeInput(connection.pointer) == 1 else { break }
        }
        // We own each result.
        return PQgetResult(connection.pointer).map(PostgresResult.init(owning:))
    }

    /// Waits until the server sends something.
    ///
    /// - Throws: ``PostgresError`` of class `timeout` when the task is cancelled.
    func waitForInput(_ connection: ConnectionHandle, milliseconds: Int32) throws(PostgresError) {
        var descriptors = [
            pollfd(fd: PQsocket(connection.pointer), events: Int16(POLLIN), revents: 0),
            pollfd(fd: waker.readEnd, events: Int16(POLLIN), revents: 0),
        ]
        if !Task.isCancelled { _ = poll(&descriptors, 2, milliseconds) }
        if descriptors[1].revents != 0 { waker.drain() }
        guard !Task.isCancelled else { throw PostgresError(.timeout, "cancelled while waiting", sqlState: "57014") }
    }

    /// Waits until the socket is ready, the task is cancelled, or patience ends.
    private func wait(
        _ connection: ConnectionHandle,
        forWriting: Bool,
        _ patience: inout Patience
    ) throws(PostgresError) {
        switch patience.next(isCancelled: Task.isCancelled) {
        case .wait: break
        case .cancel: cancelHandle?.requestCancel()
        case .giveUp:
            close()
            throw PostgresError(.connection, "the server answers neither the statement nor its cancellation")
        }
        let events = Int16(POLLIN) | (forWriting ? Int16(POLLOUT) : 0)
        var descriptors = [
            pollfd(fd: PQsocket(connection.pointer), events: events, revents: 0),
            pollfd(fd: waker.readEnd, events: Int16(POLLIN), revents: 0),
        ]
        _ = poll(&descriptors, 2, patience.milliseconds)
        if descriptors[1].revents != 0 { waker.drain() }
    }
}
