import MessageStore
import Pipeline
import Postgres
import Testing
import UpstreamKit

@Suite struct CommitTests {
    @Test func aBatchOfNewMessagesIsStored() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let batch = (1...500).map { IncomingMessage.make($0) }
        #expect(try await store.commit(batch) == Array(repeating: .stored, count: 500))
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.messages") == 500)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.message_ids") == 500)
        #expect(try await fixture.text("SELECT data::text FROM upstream.messages LIMIT 1") == #"{"a":1}"#)
        #expect(try await store.commit(batch) == Array(repeating: .stored, count: 500))
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.messages") == 500)
    }
}
