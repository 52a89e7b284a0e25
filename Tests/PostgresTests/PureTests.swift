import Testing
import Vocabulary

@testable import Postgres

@Suite struct PureTests {
    /// Which statements that people wrote are tried again.
    @Test(
        "Each SQLSTATE has its class",
        arguments: [
            ("08006", PostgresError.Class.connection, true), ("53100", .resources, true), ("53300", .resources, true),
            ("57P01", .intervention, true), ("57P03", .intervention, true), ("57014", .timeout, true),
            ("58030", .system, true), ("XX000", .system, true), ("25006", .readOnly, true), ("40P01", .rollback, true),
            ("40001", .rollback, true), ("55P03", .lock, true), ("42501", .permission, true), ("42P01", .schema, true),
            ("26000", .schema, true), ("28P01", .authentication, true), ("3D000", .authentication, true),
            ("25P03", .timeout, true), ("F0000", .other, true), ("??", .other, true), ("", .other, true),
            ("22021", .data, false), ("22P02", .data, false), ("23505", .constraint, false), ("54000", .limit, true),
            ("54001", .limit, false),
        ]
    )
    func statesAreClassified(sqlState: String, failureClass: PostgresError.Class, maySucceedLater: Bool) {
        let error = PostgresError(sqlState: sqlState, severity: "ERROR", message: "m", table: nil, constraint: "c")
        #expect(error.failureClass == failureClass)
        #expect(error.maySucceedLater == maySucceedLater)
    }

    @Test(
        "only the routine that waits for standbys leaves a commit in doubt, or a warning without one",
        arguments: [
            ("01000", "SyncRepWaitForLSN", true), ("57P01", "SyncRepWaitForLSN", true),
            ("01000", "GetNewTransactionId", false), ("01000", "exec_stmt_raise", false), ("57P01", "anything", false),
            ("01000", nil, true), ("57P01", nil, true), ("25P01", nil, false),
        ]
    )
    func standbyWarnings(sqlState: String, routine: String?, isOfStandbyWait: Bool) {
        #expect(Notices.isOfStandbyWait(sqlState: sqlState, routine: routine) == isOfStandbyWait)
    }

    @Test("a warning's text is kept of the server's routines whose texts hold counts and names alone")
    func warningTexts() {
        let known = ServerWarning(sqlState: "01000", routine: "GetNewTransactionId", text: "39,999,999 left")
        #expect(known.text == "39,999,999 left")
        #expect(ServerWarning(sqlState: "01000", routine: "exec_stmt_raise", text: "PAYLOAD").text == nil)
    }

    @Test(
        "a check violation of a table without a constraint means a missing partition; what a trigger raises is a constraint",
        arguments: [
            ("t", nil, .missingPartition), ("t", "c", .constraint), (nil, nil, .constraint), (nil, "c", .constraint),
        ] as [(String?, String?, PostgresError.Class)]
    )
    func checkViolations(table: String?, constraint: String?, expected: PostgresError.Class) {
        let error = PostgresError(
            sqlState: "23514",
            severity: "ERROR",
            message: "m",
            table: table,
            constraint: constraint
        )
        #expect(error.failureClass == expected)
    }

    @Test("the label of each class stays what it is: alerts and dashboards name them")
    func labels() {
        let server = [
            "connection", "authentication", "resources", "intervention", "timeout", "system", "read_only", "rollback",
            "lock", "missing_partition", "data", "constraint", "limit", "permission", "schema", "other",
        ]
        #expect(PostgresError.Class.allCases.map(\.rawValue) == server + ["deadline", "cancelled", "local", "closed"])
        // What a server says never falls into a class of our own.
        let own: Set<PostgresError.Class> = [.deadline, .cancelled, .local, .closed]
        for first in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
            for second in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
                #expect(!own.contains(PostgresError.classify("\(first)\(second)000", isOfPartition: false)))
            }
        }
    }

    @Test("errors of our own side blame no row, and those that leave the session in doubt end it")
    func ownErrors() {
        let ends: [(PostgresError.Class, Bool)] = [
            (.deadline, true), (.closed, true), (.cancelled, false), (.local, false),
        ]
        for (failureClass, endsSession) in ends {
            let error = PostgresError(failureClass, "m")
            #expect(error.maySucceedLater && error.sqlState == nil && error.endsSession == endsSession)
        }
    }

    @Test("Data errors do not repeat the value")
    func dataErrorsDoNotRepeatTheValue() {
        let error = PostgresError(
            sqlState: "22P02",
            severity: "ERROR",
            message: "invalid input syntax for type integer: \"SECRET\"",
            table: nil,
            constraint: nil
        )
        #expect(!"\(error)".contains("SECRET"))
        #expect("\(error)".contains("invalid input syntax"))
    }

    @Test(
        "Settings never show the password",
        arguments: [
            "postgresql://me:SECRET@db.example:5433/up?connect_timeout=3", "host=db.example user=me password=SECRET",
        ]
    )
    func settingsNeverShowThePassword(url: String) throws {
        let settings = try PostgresSettings(url: url)
        #expect(settings.description.contains("me@db.example"))
        #expect(!settings.description.contains("SECRET"))
    }

    @Test(
        "A malformed URL is reported without its password",
        arguments: ["postgresql://me:SECRET@[oops", "password=SECRET host", "user=me password='SECRET"]
    )
    func aMalformedURLIsNamedWithoutItsPassword(url: String) {
        let error = #expect(throws: PostgresError.self) { try PostgresSettings(url: url) }
        #expect(error.map { !"\($0)".contains("SECRET") && "\($0)".contains("database.url") } ?? false)
    }

    @Test("With several hosts the writable one is asked for")
    func severalHostsAskForTheOneThatTakesWrites() throws {
        func attributes(_ url: String) throws -> String? {
            try PostgresSettings(url: url).connectionParameters.last { $0.0 == "target_session_attrs" }?.1
        }
        #expect(try attributes("postgresql://a,b/up") == "read-write")
        #expect(try attributes("postgresql://a/up") == nil)
    }

    /// Waiting, cancelling and cancelled, each before and after its deadline.
    @Test("A silent statement is cancelled once, then its connection is given up")
    func cancelsOnce() {
        let clock = Clock()
        var deadline = StatementDeadline(1_000, grace: 500) { clock.now }
        #expect(deadline.next(isCancelled: false) == .wait)
        #expect(deadline.milliseconds == 2_000)
        clock.now = 2_000
        #expect(deadline.next(isCancelled: false) == .cancel)
        #expect(deadline.next(isCancelled: true) == .wait)
        #expect(deadline.milliseconds == 500)
        clock.now = 2_500
        #expect(deadline.next(isCancelled: false) == .giveUp)
        var cancelled = StatementDeadline(1_000, grace: 500) { clock.now }
        #expect(cancelled.next(isCancelled: true) == .cancel)
    }

    /// A statement of a writer that does not answer, by what a probe finds.
    @Test(
        "The backend is looked up before a silent connection is given up",
        arguments: [
            (BackendFinding.works, StatementDeadline.Step.wait), (.waitsForStandby, .wait), (.idle, .wait),
            (.unclear, .wait),
            (.silent, .wait), (.gone, .giveUp), (.unreachable, .giveUp),
        ]
    )
    func probesFirst(finding: BackendFinding, step: StatementDeadline.Step) {
        let clock = Clock()
        var deadline = StatementDeadline(60_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        #expect(deadline.next(isCancelled: false) == .wait && deadline.milliseconds == 5_000)
        clock.now = 5_000
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.next(isCancelled: false) == .wait && deadline.milliseconds == 2_000)
        #expect(deadline.found(finding, isUnsent: false) == step)
        #expect(deadline.waitsForStandby == (finding == .waitsForStandby))
        // A finding that comes twice, or too late, is none.
        #expect(deadline.found(.gone, isUnsent: false) == (step == .wait ? .wait : .giveUp))
    }

    /// A pooler that lets us in and has nothing behind it that answers.
    @Test("A second silence ends the wait")
    func secondSilence() {
        let clock = Clock()
        var deadline = StatementDeadline(60_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        clock.now = 5_000
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(.silent, isUnsent: false) == .wait && deadline.milliseconds == 500)
        clock.now = 5_500
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(.works, isUnsent: false) == .wait)
        for (time, step) in [(10_500, StatementDeadline.Step.wait), (11_000, .giveUp)] {
            clock.now = Int64(time)
            #expect(deadline.next(isCancelled: false) == .probe)
            #expect(deadline.found(.silent, isUnsent: false) == step)
        }
    }

    @Test(
        "At the limit only a working backend is cancelled",
        arguments: [
            (BackendFinding.works, StatementDeadline.Step.cancel), (.waitsForStandby, .wait), (.idle, .giveUp),
            (.unclear, .giveUp),
            (.silent, .giveUp), (.gone, .giveUp), (.unreachable, .giveUp),
        ]
    )
    func cancelsOnlyWhatWorks(finding: BackendFinding, step: StatementDeadline.Step) {
        let clock = Clock()
        var deadline = StatementDeadline(1_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        clock.now = 2_000
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(finding, isUnsent: false) == step)
        // A wait for a standby has no limit from then on.
        clock.now = 6_000
        if step == .wait { #expect(deadline.next(isCancelled: false) == .wait) }
        // Nor does the end of the task break it off.
        var cancelled = StatementDeadline(1_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        #expect(cancelled.next(isCancelled: true) == .probe)
        #expect(cancelled.found(finding, isUnsent: false) == (finding == .works ? .cancel : .giveUp))
    }

    @Test(
        "The limit holds again from when it no longer waits for a standby",
        arguments: [
            (BackendFinding.works, false, StatementDeadline.Step.cancel), (.unclear, false, .giveUp),
            (.idle, true, .giveUp),
        ]
    )
    func limitReturns(finding: BackendFinding, isUnsent: Bool, step: StatementDeadline.Step) {
        let clock = Clock()
        var deadline = StatementDeadline(20_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        var steps: [StatementDeadline.Step] = []
        for time in stride(from: 5_000, through: 120_000, by: 5_000) {
            clock.now = Int64(time)
            #expect(deadline.next(isCancelled: false) == .probe)
            steps.append(deadline.found(time <= 60_000 ? .waitsForStandby : finding, isUnsent: isUnsent))
            if steps.last != .wait { break }
        }
        // The limit of 20 s and its second, from 65 s on, where the probes are 5 s apart.
        #expect(steps.last == step && clock.now == 90_000)
        #expect(deadline.waitsForStandby, "told once")
    }

    @Test("A probe that takes too long is an answer")
    func slowProbe() {
        let clock = Clock()
        var deadline = StatementDeadline(60_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        clock.now = 5_000
        #expect(deadline.next(isCancelled: false) == .probe)
        clock.now = 7_000
        #expect(deadline.next(isCancelled: false) == .giveUp)
    }

    @Test("An idle backend is probed twice before the connection is given up")
    func idleTwice() {
        let clock = Clock()
        var deadline = StatementDeadline(60_000, grace: 500, probes: .init(after: 5_000, limit: 2_000)) { clock.now }
        clock.now = 5_000
        #expect(deadline.next(isCancelled: false) == .probe)
        // What is still on its way can't be worked on.
        #expect(deadline.found(.idle, isUnsent: true) == .wait && deadline.milliseconds == 5_000)
        clock.now = 10_000
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(.works, isUnsent: false) == .wait)
        clock.now = 15_000
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(.idle, isUnsent: false) == .wait && deadline.milliseconds == 500)
        clock.now = 15_500
        #expect(deadline.next(isCancelled: false) == .probe)
        #expect(deadline.found(.idle, isUnsent: false) == .giveUp)
    }

    private final class Clock {
        var now: Int64 = 0
    }
}
