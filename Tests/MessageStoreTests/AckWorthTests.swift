import Foundation
import Postgres
import Testing

@testable import MessageStore

@Suite("what an ack is worth")
struct AckWorthTests {
    @Test(
        "What an ack is worth is told from the settings that decide it",
        arguments: [
            ("", 0, true, true, "a crash of this server; it has no standby"),
            ("", 2, true, true, "a crash of this server, not a failover that loses its last transactions"),
            ("ANY 1 (a, b)", 2, true, true, "a failover to a standby"), ("a", 1, true, true, "not tried: whether"),
            ("a", 1, false, true, "fsync is off: an ack may not survive"),
            ("", 0, false, false, "fsync and full_page_writes are off"),
            ("a", 1, true, true, "client_min_messages = notice"),
        ]
    )
    func text(standbys: String, receivers: Int, fsync: Bool, pages: Bool, text: String) {
        let worth = AckWorth(
            synchronousStandbys: standbys,
            receivers: receivers,
            fsync: fsync,
            fullPageWrites: pages
        )
        #expect(worth.text.contains(text))
        #expect(!worth.isStalled && worth.isOnDisk == (fsync && pages))
        #expect(AckWorth(synchronousStandbys: "a", receivers: 0, fsync: true, fullPageWrites: true).isStalled)
    }

    @Test("where sessions hear of errors alone, it is said that commits hear of warnings")
    func silenced() {
        var worth = AckWorth(synchronousStandbys: "a", receivers: 1, fsync: true, fullPageWrites: true)
        worth.clientMinMessages = "error"
        #expect(worth.text.contains("client_min_messages = error, raised to warning for commits"))
    }

    @Test("a server is asked, by a role without any rights", arguments: ["notice", "error"])
    func asked(silence: String) async throws {
        let fixture = try await StoreFixture()
        try await fixture.script("CREATE ROLE nobody LOGIN; ALTER ROLE nobody SET client_min_messages = \(silence)")
        let url = fixture.url.replacingOccurrences(of: "user=upstream", with: "user=nobody")
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        #expect(
            try await AckWorth.ask(connection)
                == AckWorth(
                    synchronousStandbys: "",
                    receivers: 0,
                    fsync: false,
                    fullPageWrites: true,
                    clientMinMessages: silence
                )
        )
        await connection.close()
        try await fixture.script("DROP ROLE nobody")
    }
}
