import Postgres
import Testing

@testable import MessageStore

@Suite("the table of pins of channel binding")
struct BindingPinsTests {
    @Test("the first binding stays; forgetting deletes a sender's alone, and records it")
    func pins() async throws {
        let fixture = try await StoreFixture()
        let connection = fixture.admin
        func list() async throws -> [String] {
            try await connection.run { connection throws(PostgresError) in try BindingPins.list(connection) }
                .map { "\($0.senderID) \($0.domain) \($0.binding)" }.sorted()
        }
        func forget(_ sender: String) async throws -> Int {
            try await connection.inTransaction { connection throws(PostgresError) in
                try BindingPins.forget(connection, sender, by: .tester("a new server"))
            }
        }
        #expect(try await list().isEmpty)
        for (sender, domain, kind) in [
            ("a", "x.test", "tls-unique"), ("a", "x.test", "tls-exporter"), ("a", "y.test", "tls-exporter"),
            ("b", "x.test", "tls-exporter"),
        ] {
            try await connection.run { connection throws(PostgresError) in
                try BindingPins.add(connection, sender, domain, kind)
            }
        }
        #expect(try await list() == ["a x.test tls-unique", "a y.test tls-exporter", "b x.test tls-exporter"])
        #expect(try await forget("c") == 0)
        #expect(try await forget("a") == 2)
        #expect(try await list() == ["b x.test tls-exporter"])
        let trail = try await fixture.text(
            "SELECT string_agg(concat_ws('|', action, subject, count, reason), ';') FROM upstream.audit"
        )
        #expect(trail == "check.forget-pin|sender a|2|a new server")
    }
}
