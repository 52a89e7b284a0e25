import Testing
import Vocabulary

@testable import MessageStore
@testable import Worker

struct SessionBudgetTests {
    private let folder: ConfigurationTests.Folder

    init() throws { folder = try ConfigurationTests.Folder() }

    @Test(
        "a server with room for too few sessions is refused; behind a pooler, which shares them out, it is told",
        arguments: [true, false]
    )
    func pooler(_ isPooled: Bool) throws {
        let yaml = """
            database: {url: 'postgresql:///upstream'}
            senders: [{sender_id: '1', host: xmpp.example.com, secret_file: \(folder.secret)}]

            """
        let budget = SessionBudget(try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "c").configuration)
        var facts = DatabaseFacts(
            versionNumber: 150_014,
            version: "15.14",
            role: "upstream-worker",
            encoding: "UTF8",
            maximumConnections: 100,
            reservedConnections: 3,
            connections: 1,
            roleLimit: 6,
            databaseLimit: nil,
            database: "upstream",
            clock: ClockDifference(asked: .now, database: .now, answered: .now)
        )
        #expect(budget.needed == 7)
        let cause = "this worker opens up to 7 sessions (2 for database.writers, 5 of its own), and the role"
        switch budget.judge(facts, isPooled: isPooled) {
        case .failed(let found, _, let status):
            #expect(!isPooled && status == .configuration && found.hasPrefix(cause), "\(found)")
        case .warned(let found, let fix):
            #expect(isPooled && found.hasPrefix(cause) && fix.contains("pool"), "\(found)")
        case .passed, .skipped: Issue.record("the limit is not seen")
        }
        facts.roleLimit = 7
        guard case .passed = budget.judge(facts, isPooled: isPooled) else {
            Issue.record("there is room")
            return
        }
    }
}
