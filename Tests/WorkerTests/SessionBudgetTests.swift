import Probing
import Testing
import Vocabulary

@testable import MessageStore
@testable import UpstreamConfiguration
@testable import Worker

struct SessionBudgetTests {
    private let folder: ConfigurationTests.Folder

    init() throws { folder = try ConfigurationTests.Folder() }

    private func budget(_ rest: String = "", writers: Int = 2) throws -> SessionBudget {
        let yaml = """
            database: {url: 'postgresql:///upstream', writers: \(writers)}
            senders: [{sender_id: '1', host: xmpp.example.com, secret_file: \(folder.secret)}]
            \(rest)
            """
        return SessionBudget(try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "c").configuration)
    }

    private func facts(maximum: Int = 100, inUse: Int = 1, roleLimit: Int? = nil) -> DatabaseFacts {
        DatabaseFacts(
            versionNumber: 150_014,
            version: "15.14",
            role: "upstream-worker",
            encoding: "UTF8",
            maximumConnections: maximum,
            reservedConnections: 3,
            connections: inUse,
            roleLimit: roleLimit,
            databaseLimit: nil,
            database: "upstream"
        )
    }

    @Test(
        "a server with room for too few sessions is refused; behind a pooler, which shares them out, it is told",
        arguments: [true, false]
    )
    func pooler(_ isPooled: Bool) throws {
        let budget = try budget()
        #expect(budget.needed == 8)
        let cause = "this worker opens up to 8 sessions (2 for database.writers, 6 of its own), and the role"
        switch budget.judge(facts(roleLimit: 7), isPooled: isPooled) {
        case .failed(let found, _, let status):
            #expect(!isPooled && status == .configuration && found.hasPrefix(cause), "\(found)")
        case .warned(let found, let fix):
            #expect(isPooled && found.hasPrefix(cause) && fix.contains("pool"), "\(found)")
        case .passed, .skipped: Issue.record("the limit is not seen")
        }
        guard case .passed = budget.judge(facts(roleLimit: 8), isPooled: isPooled) else {
            Issue.record("there is room")
            return
        }
    }

    @Test(
        "max_connections, without what is reserved, has to hold the writers, the handlers that are functions, and ours"
    )
    func maximum() throws {
        let handlers = """
            handlers:
              - {name: a, categories: ['*'], concurrency: 6, sql: {function: app.a}}
              - {name: b, categories: ['*'], concurrency: 4, sql: {function: app.b}}
              - {name: c, categories: ['*'], concurrency: 50, log: {}}
            """
        let budget = try budget(handlers, writers: 3)
        // The calls of a handler outside the database need no sessions, however many it takes at once; what waits for the
        // database on behalf of a handler holds up no other.
        let needed = 3 + 6 + 4 + 17
        #expect(budget.needed == needed)
        guard case .failed(let cause, let fix, let status) = budget.judge(facts(maximum: needed + 2), isPooled: false)
        else {
            Issue.record("the server's limit is not seen")
            return
        }
        #expect(
            cause == "this worker opens up to 30 sessions (3 for database.writers, 10 for handlers that are functions, "
                + "17 of its own), and max_connections leaves 29"
        )
        #expect(status == .configuration && fix.hasPrefix("raise max_connections, or lower database.writers"))
        let fitting = facts(maximum: needed + 3)
        guard case .passed = budget.judge(fitting, isPooled: false) else {
            Issue.record("there is room for exactly these, of which the one that asks is one")
            return
        }
        guard case .warned(let busy, _) = budget.judge(facts(maximum: needed + 3, inUse: 2), isPooled: false) else {
            Issue.record("another's session is not seen")
            return
        }
        #expect(busy.contains("of the 30 that max_connections leaves, 29 are free now"), "\(busy)")
    }
}
