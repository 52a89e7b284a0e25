import Dispatcher
import Foundation
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@testable import MessageStore

@Suite("the rows that claims return")
struct ClaimRowTests {
    /// A row as ``ClaimStatements`` return them; what is given stands in for the columns of the delivery.
    private func row(token: String = "7", attempts: String = "0", messageID: String = "'m'") -> String {
        """
        SELECT
            '00000000-0000-0001-0000-000000000001'::uuid, now(), now(), \(token)::bigint, \(attempts)::integer, 0::smallint,
            NULL::text,
            \(messageID)::text, '1', 'com.example.orders', 'token', '00000000-0000-0007-0000-000000000007'::uuid,
            '{"a":1}', NULL::text, NULL::text, now(), 9::bigint, false
        """
    }

    private func claimed(_ sql: String) async throws -> ClaimResult<Delivery> {
        let fixture = try await StoreFixture(migrated: false)
        return try await fixture.admin.run { connection throws(PostgresError) in
            try ClaimResult(try connection.query(sql), ContinuousClock.now)
        }
    }

    @Test("a row is a delivery with its fencing token and its message")
    func whole() async throws {
        let claimed = try await claimed(row())
        let delivery = try #require(claimed.values.first)
        #expect(claimed.values.count == 1 && delivery.lease.token == 7)
        #expect(delivery.messageKey == Digest128(high: 1, low: 1) && claimed.last.live?.key == delivery.messageKey)
        #expect(claimed.surroundings.entries == 9 && !claimed.surroundings.isPaused)
        guard case .stored(let message) = delivery.content else {
            Issue.record("\(delivery.content)")
            return
        }
        #expect(message.messageID == "m" && message.data == Array(#"{"a":1}"#.utf8))
    }

    @Test("a delivery whose message retention has taken says so")
    func missing() async throws {
        let delivery = try #require(try await claimed(row(messageID: "NULL")).values.first)
        guard case .missing = delivery.content else {
            Issue.record("\(delivery.content)")
            return
        }
    }

    @Test("a null fencing token or count, another type, and no row are errors", arguments: [0, 1, 2, 3])
    func faults(_ number: Int) async throws {
        let sql = [
            row(token: "NULL"), row(attempts: "NULL"), row().replacingOccurrences(of: "0::smallint", with: "'0'::text"),
            row() + " LIMIT 0",
        ][number]
        let error = await #expect(throws: PostgresError.self) { _ = try await claimed(sql) }
        #expect(error?.failureClass == .schema)
    }
}
