import DatabaseSupport
import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import Postgres
import Testing
import Vocabulary

enum SharedCluster {
    static let cluster = LocalCluster.forTests("postgres")

    static func open(_ change: (inout PostgresSettings) -> Void = { _ in }) async throws -> PostgresConnection {
        var settings = try PostgresSettings(url: cluster.url)
        change(&settings)
        return try await PostgresConnection.open(settings)
    }
}

@Suite struct SessionTests {
    @Test("Values and arrays make the round trip")
    func valuesAndArraysComeBackAsTheyWent() async throws {
        let connection = try await SharedCluster.open()
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters(capacity: 1)
            parameters.append("é\u{1F600}")
            parameters.append(-5 as Int64)
            parameters.append(true)
            parameters.append(Digest128(high: 1, low: .max))
            parameters.append(Timestamp(microseconds: 1_700_000_000_123_456))
            parameters.appendNull(.text)
            parameters.beginArray(of: .text, count: 3)
            [UInt8]("a{},\"\\".utf8).withUnsafeBytes { parameters.element($0) }
            parameters.nullElement()
            parameters.element(UnsafeRawBufferPointer(start: nil, count: 0))
            parameters.endArray()
            parameters.beginArray(of: .bytea, count: 0)
            parameters.endArray()
            let result = try connection.query(
                "SELECT $1, $2, $3, $4, $5, $6, $7[1], $7[2], $7[3], cardinality($8)",
                parameters
            )
            try result.only { row throws(PostgresError) in
                #expect(try row.next(String.self) == "é\u{1F600}")
                #expect(try row.next(Int64.self) == -5)
                #expect(try row.next(Bool.self))
                #expect(try row.next(Digest128.self) == Digest128(high: 1, low: .max))
                #expect(try row.next(Timestamp.self).microseconds == 1_700_000_000_123_456)
                #expect(try row.next(String?.self) == nil)
                #expect(try row.next(String.self) == "a{},\"\\")
                #expect(try row.next(String?.self) == nil)
                #expect(try row.next(String.self) == "")
                #expect(try row.next(Int64.self) == 0)
            }
        }
    }

    /// The request to cancel comes over a connection of its own, and so at any time.
    @Test("A late cancel hits no other statement", .timeLimit(.minutes(5))) func aLateCancelHitsNoOtherStatement()
        async throws
    {
        let connection = try await SharedCluster.open()
        for round in 0..<400 {
            let first = Task {
                try await connection.run { connection throws(PostgresError) in
                    try connection.script("SELECT pg_sleep(0.0000\(round % 40 + 10))")
                }
            }
            await Task.yield()
            first.cancel()
            _ = await first.result
            try await connection.run { connection throws(PostgresError) in
                try connection.script("SELECT pg_sleep(0.0005)")
            }
        }
    }

    /// Outlives a request to cancel, and says so in a row.
    private static let stubborn = """
        DO $$ BEGIN
            BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN END;
            INSERT INTO outlived VALUES (1);
        END $$
        """

    /// A session whose limit is ours alone, and the number of its server process.
    private func stubbornSession(limit: Int) async throws -> (PostgresConnection, process: Int) {
        let connection = try await SharedCluster.open { $0.statementTimeout = limit }
        let process = try await connection.run { connection throws(PostgresError) in
            try connection.script("SET statement_timeout = 0; CREATE TEMPORARY TABLE outlived (a int)")
            return try connection.run("SELECT pg_backend_pid()").value(Int.self)
        }
        return (connection, process)
    }

    @Test(
        "a success after our own request to cancel is of unknown outcome; the request hits no later statement",
        .timeLimit(.minutes(5)),
        arguments: [true, false]
    )
    func successAfterOurCancel(isByTask: Bool) async throws {
        let (connection, process) = try await stubbornSession(limit: isByTask ? 60_000 : 100)
        let attempt = Task {
            try await connection.run { connection throws(PostgresError) in try connection.script(Self.stubborn) }
        }
        if isByTask {
            let other = try await SharedCluster.open()
            try await waitUntil("the statement runs") {
                try await other.run { connection throws(PostgresError) in
                    try connection.run(
                        "SELECT count(*) FROM pg_stat_activity WHERE pid = \(process) AND wait_event = 'PgSleep'"
                    ).value(Int.self) == 1
                }
            }
            attempt.cancel()
        }
        let error = await #expect(throws: PostgresError.self) { try await attempt.value }
        #expect(error?.sqlState == "08007" && error?.failureClass == .deadline && error?.endsSession == true)
        // On a smaller batch it might have been kept; a task that ends says nothing of the sort.
        #expect(error?.isTimeLimit == !isByTask)
        let rows = try await connection.run { connection throws(PostgresError) in
            try connection.script("SELECT pg_sleep(0.05)")
            return try connection.run("SELECT count(*) FROM outlived").value(Int.self)
        }
        #expect(rows == 1, "it has committed: whoever took the error for a failure would do it twice")
    }

    @Test("inside a transaction a success after our request to cancel is one: only its COMMIT decides")
    func successInsideATransaction() async throws {
        let (connection, _) = try await stubbornSession(limit: 100)
        let rows = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in try connection.script(Self.stubborn) }
            return try connection.run("SELECT count(*) FROM outlived").value(Int.self)
        }
        #expect(rows == 1)
    }

    /// A session that stayed in the transaction would hold its locks, and its next user would commit it.
    @Test("A transaction cancelled before its COMMIT is rolled back")
    func aTransactionCancelledBeforeItsCommitIsGone() async throws {
        let connection = try await SharedCluster.open()
        let other = try await SharedCluster.open()
        let attempt = Task {
            try await connection.run { connection throws(PostgresError) in
                try connection.script("CREATE TABLE uncommitted (a int)")
                try connection.transaction { connection throws(PostgresError) in
                    try connection.script("INSERT INTO uncommitted VALUES (1)")
                    withUnsafeCurrentTask { $0?.cancel() }
                }
            }
        }
        await #expect(throws: PostgresError.self) { try await attempt.value }
        #expect(await connection.run { $0.isOpen } == false)
        try await other.run { connection throws(PostgresError) in
            try connection.script("SET lock_timeout = 5000; LOCK TABLE uncommitted")
            #expect(try connection.query("SELECT count(*) FROM uncommitted").value(Int64.self) == 0)
        }
    }

    @Test("A transaction commits all or nothing")
    func aTransactionIsAllOrNothing() async throws {
        let connection = try await SharedCluster.open()
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script("CREATE TABLE whole (a int)")
                try connection.transaction { connection throws(PostgresError) in
                    try connection.script("INSERT INTO whole VALUES (1)")
                    try connection.script("SELECT 1 / 0")
                }
            }
        }
        #expect(error?.sqlState == "22012")
        let count = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.script("INSERT INTO whole VALUES (2)")
            }
            return try connection.query("SELECT count(*) FROM whole").value(Int64.self)
        }
        #expect(count == 1)
    }

    @Test("Prepared statements are prepared again after the server lost them")
    func preparedStatementsSurviveTheirLoss() async throws {
        let connection = try await SharedCluster.open()
        let statement = PostgresStatement("SELECT 42 AS answer")
        try await connection.run { connection throws(PostgresError) in
            for _ in 0..<3 { #expect(try connection.execute(statement, PostgresParameters()).value(Int64.self) == 42) }
            try connection.script("DEALLOCATE ALL")
            #expect(try connection.execute(statement, PostgresParameters()).value(Int64.self) == 42)
            #expect(try connection.execute(statement, PostgresParameters()).value(Int64.self) == 42)
        }
    }

    @Test(
        "A statement that foreign code deallocates is prepared again for the next transaction",
        arguments: [false, true]
    )
    func deallocated(isRolledBack: Bool) async throws {
        let connection = try await SharedCluster.open()
        let statement = PostgresStatement("SELECT 42 AS answer")
        try await connection.run { connection throws(PostgresError) in
            for _ in 0..<3 {
                do throws(PostgresError) {
                    try connection.transaction(thenResetting: true) { connection throws(PostgresError) in
                        let answer = try connection.execute(statement, PostgresParameters()).value(Int64.self)
                        #expect(answer == 42)
                        try connection.script("DEALLOCATE ALL")
                        if isRolledBack { throw PostgresError(.other, "rolled back") }
                    }
                } catch { #expect(isRolledBack && error.message == "rolled back") }
            }
        }
    }

    @Test("Our own deadline ends a statement that the server's timeout does not")
    func ourOwnDeadlineEndsAStatementThatTheServersDoesNot() async throws {
        let connection = try await SharedCluster.open { $0.statementTimeout = 100 }
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script("SET statement_timeout = 0")
                try connection.script("SELECT pg_sleep(60)")
            }
        }
        #expect(error?.sqlState == "57014")
        #expect(await connection.isOpen)
    }

    @Test("a server that answers neither a statement nor its cancellation is given up at our own deadline")
    func deadline() async throws {
        let connection = try await SharedCluster.open {
            $0.statementTimeout = 100
            $0.cancelGrace = 100
        }
        let backend = try await connection.run { connection throws(PostgresError) in
            try connection.run("SELECT pg_backend_pid()").value(Int.self)
        }
        kill(pid_t(backend), SIGSTOP)
        defer { kill(pid_t(backend), SIGCONT) }
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection throws(PostgresError) in try connection.run("SELECT 1") }
        }
        #expect(error?.failureClass == .deadline && error?.sqlState == "08007" && error?.endsSession == true)
        #expect(await !connection.isOpen)
    }

    @Test("a connection that we closed, and a task that is cancelled, are errors without a SQLSTATE")
    func ownSide() async throws {
        let connection = try await SharedCluster.open()
        let cancelled = Task {
            try await connection.run { connection throws(PostgresError) in
                withUnsafeCurrentTask { $0?.cancel() }
                try connection.run("SELECT 1")
            }
        }
        let early = await #expect(throws: PostgresError.self) { try await cancelled.value }
        #expect(early?.failureClass == .cancelled && early?.sqlState == nil)
        // Nothing was sent, so that the session is as good as before.
        #expect(await connection.isOpen)
        await connection.close()
        let late = await #expect(throws: PostgresError.self) {
            try await connection.run { connection throws(PostgresError) in try connection.run("SELECT 1") }
        }
        #expect(late?.failureClass == .closed && late?.sqlState == nil)
    }

    @Test("a row without a partition is told from a row that violates a constraint, though the SQLSTATE is the same")
    func missingPartition() async throws {
        let connection = try await SharedCluster.open()
        try await connection.run { connection throws(PostgresError) in
            try connection.script(
                """
                CREATE TABLE days (day int CONSTRAINT not_nine CHECK (day <> 9)) PARTITION BY RANGE (day);
                CREATE TABLE days_ones PARTITION OF days FOR VALUES FROM (0) TO (10)
                """
            )
        }
        for (day, expected) in [(10, PostgresError.Class.missingPartition), (9, .constraint)] {
            let error = await #expect(throws: PostgresError.self) {
                try await connection.run { connection throws(PostgresError) in
                    try connection.run("INSERT INTO days VALUES (\(day))")
                }
            }
            #expect(error?.failureClass == expected && error?.sqlState == "23514")
        }
    }

    @Test("what foreign code sets for its session is gone after the commit, and our own parameters are back")
    func resetting() async throws {
        let connection = try await SharedCluster.open { $0.statementTimeout = 4_321 }
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction(thenResetting: true) { connection throws(PostgresError) in
                try connection.script("SET search_path = pg_temp; SET statement_timeout = 0; SET ROLE pg_monitor")
            }
            let settings = try connection.run(
                "SELECT current_setting('search_path'), current_setting('statement_timeout'), current_user::text"
            )
            try settings.only { row throws(PostgresError) in
                #expect(try row.next(String.self).contains("public"))
                #expect(try row.next(String.self) == "4321ms")
                #expect(try row.next(String.self) == "upstream")
            }
        }
    }

    @Test("A killed session is a connection error, and the client reconnects")
    func aKilledSessionIsAConnectionErrorAndTheClientComesBack() async throws {
        let client = PostgresClient(try PostgresSettings(url: SharedCluster.cluster.url))
        let error = await #expect(throws: PostgresError.self) {
            try await client.run { connection throws(PostgresError) in
                try connection.script("SELECT pg_terminate_backend(pg_backend_pid())")
            }
        }
        #expect(error?.maySucceedLater == true && error?.endsSession == true)
        let one = try await client.run { connection throws(PostgresError) in
            try connection.query("SELECT 1").value(Int64.self)
        }
        #expect(one == 1)
    }

    @Test("A database in another encoding is refused, and the error names the remedy")
    func aDatabaseInAnotherEncodingIsRefusedWithTheRemedy() async throws {
        let connection = try await SharedCluster.open()
        try await connection.run { connection throws(PostgresError) in
            try connection.script("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        }
        let url = SharedCluster.cluster.url.replacingOccurrences(of: "/upstream?", with: "/latin?")
        let settings = try PostgresSettings(url: url)
        let error = await #expect(throws: PostgresError.self) { try await PostgresConnection.open(settings) }
        #expect(error.map { "\($0)".contains("LATIN1") && "\($0)".contains("UTF8") } ?? false)
    }

    @Test("Without a server there is a connection error")
    func nobodyThereIsAConnectionError() async throws {
        let settings = try PostgresSettings(url: "host=/nowhere dbname=x")
        let error = await #expect(throws: PostgresError.self) { try await PostgresConnection.open(settings) }
        #expect(error?.failureClass == .connection)
    }
}
