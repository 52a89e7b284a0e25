import Testing

/// Something that is done to a database, and what it gives.
struct Case: Sendable, CustomTestStringConvertible {
    let name: String
    let body: @Sendable (any Site) async throws -> [String]

    init(_ name: String, _ body: @escaping @Sendable (any Site) async throws -> [String]) {
        (self.name, self.body) = (name, body)
    }

    var testDescription: String { name }
}

/// The model and a real server are asked the same, and answer the same.
@Suite("the model of the database", .timeLimit(.minutes(10)))
struct ConformanceTests {
    @Test("stores as PostgreSQL does", arguments: storing)
    func stores(_ one: Case) async throws { try await compare(one) }

    @Test("fails as PostgreSQL does", arguments: failing)
    func fails(_ one: Case) async throws { try await compare(one) }

    @Test("registers handlers as PostgreSQL does", arguments: registering)
    func registers(_ one: Case) async throws { try await compare(one) }

    @Test("queues deliveries as PostgreSQL does", arguments: queueing)
    func queues(_ one: Case) async throws { try await compare(one) }

    @Test("leases deliveries as PostgreSQL does", arguments: leasing)
    func leases(_ one: Case) async throws { try await compare(one) }

    @Test("settles deliveries as PostgreSQL does", arguments: settling)
    func settles(_ one: Case) async throws { try await compare(one) }

    @Test("troubles the dispatcher as PostgreSQL does", arguments: troubled)
    func troubles(_ one: Case) async throws { try await compare(one) }

    @Test("calls functions as PostgreSQL does", arguments: calling)
    func calls(_ one: Case) async throws { try await compare(one) }

    private func compare(_ one: Case) async throws {
        let time = VirtualTime()
        let model = ModelSite(time)
        let found = try await time.run { try await one.body(model) }
        let expected = try await one.body(try await PostgresSite())
        #expect(!expected.isEmpty)
        for (line, (found, expected)) in zip(found, expected).enumerated() where found != expected {
            Issue.record("line \(line): the model gives \"\(found)\", PostgreSQL \"\(expected)\"")
        }
        #expect(found.count == expected.count, "\(found) \(expected)")
    }
}
