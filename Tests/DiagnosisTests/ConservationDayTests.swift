import Diagnosis
import MessageStore
import QuerySupport
import Testing

@Suite("audit and forget: days that a site has made its own")
struct ConservationDayTests {
    @Test(
        "what forget has erased is explained, whatever its day is called and however it is divided; no other row goes"
    )
    func oddDays() async throws {
        let fixture = try await QueryFixture(ConservationTests.seeds)
        try await fixture.script(
            """
            ALTER TABLE upstream.messages_20260301 RENAME TO "Day 1: 2026.03";
            ALTER TABLE upstream.messages DETACH PARTITION upstream.messages_20260302;
            ALTER TABLE upstream.messages_20260302 RENAME TO whole;
            CREATE TABLE upstream.messages_20260302 (LIKE upstream.messages INCLUDING ALL) PARTITION BY HASH (message_key);
            CREATE TABLE upstream.half PARTITION OF upstream.messages_20260302 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
            CREATE TABLE upstream.other_half PARTITION OF upstream.messages_20260302
                FOR VALUES WITH (MODULUS 2, REMAINDER 1);
            INSERT INTO upstream.messages_20260302 SELECT * FROM upstream.whole ORDER BY received_at;
            ALTER TABLE upstream.messages ATTACH PARTITION upstream.messages_20260302
                FOR VALUES FROM ('2026-03-02 00:00+00') TO ('2026-03-03 00:00+00')
            """
        )
        let gone = try await Erasure(fixture.admin, token: Array(ConservationTests.token.utf8))
            .run(by: AuditAuthor("someone", via: .command))
        #expect(gone.messages == 2)
        let report = try await Conservation(fixture.reader).run()
        #expect(report.ledger.erased == 2 && report.ledger.bodies == 98 && report.ledger.missing == 0, "\(report)")
    }
}
