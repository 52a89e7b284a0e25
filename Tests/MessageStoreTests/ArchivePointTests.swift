import Ingest
import Postgres
import Testing
import Vocabulary

@testable import MessageStore

@Suite("how far archives were read")
struct ArchivePointTests {
    private static let time = Timestamp(microseconds: Timestamp.now.microseconds - 3_600_000_000)

    /// A store, and a script that sees what it has written.
    private static func run(
        _ body: (ArchivePointStore, StoreFixture) async throws -> Void
    ) async throws {
        let fixture = try await StoreFixture()
        let store = ArchivePointStore(try PostgresSettings(url: fixture.url))
        try await body(store, fixture)
        await store.close()
    }

    @Test("one reader at a time: another gets the lease once it is given back or has expired")
    func lease() async throws {
        try await Self.run { store, fixture in
            func claim(_ reader: String, _ sender: String = "1") async throws -> ArchiveClaim {
                try await store.claim(sender: sender, archive: "\(sender)@x", reader: reader)
            }
            func save(_ reader: String, _ id: String, _ end: ArchiveEnd? = nil) async throws -> Bool {
                let point = ArchivePoint(id: id, time: Self.time)
                return try await store.save(point, sender: "1", archive: "1@x", reader: reader, end: end)
            }
            #expect(try await claim("a") == .first)
            #expect(try await claim("b") == .taken)
            #expect(try await claim("b", "2") == .first)
            #expect(try await claim("a") == .first)
            // Nothing is saved without the lease.
            #expect(try await !save("b", "wrong"))
            #expect(try await save("a", "7"))
            #expect(try await claim("b") == .taken)
            #expect(try await save("a", "8", .complete))
            #expect(try await claim("b") == .from(ArchivePoint(id: "8", time: Self.time)))
            #expect(try await claim("a") == .taken)
            try await fixture.script("UPDATE upstream.archive_points SET leased_until = now() - interval '1 second'")
            #expect(try await claim("a") == .from(ArchivePoint(id: "8", time: Self.time)))
            #expect(try await !save("b", "late"))
        }
    }

    @Test("an archive that was empty is read from a day before; a clock that is ahead leads nowhere")
    func times() async throws {
        try await Self.run { store, fixture in
            func read(after point: ArchivePoint) async throws -> ArchivePoint? {
                _ = try await store.claim(sender: "1", archive: "1@x", reader: "a")
                _ = try await store.save(point, sender: "1", archive: "1@x", reader: "a", end: .interrupted)
                guard case .from(let found) = try await store.claim(sender: "1", archive: "1@x", reader: "a") else {
                    return nil
                }
                return found
            }
            let day = Duration.seconds(86_400)
            let empty = try #require(try await read(after: ArchivePoint()))
            #expect(empty.id == nil && abs(((Timestamp.now - (empty.time ?? .now)) - day) / .seconds(1)) < 60)
            let ahead = try #require(try await read(after: ArchivePoint(id: "1", time: .now + day)))
            #expect(ahead.id == "1" && (ahead.time ?? .now + day) <= .now + .seconds(5))
        }
    }

    @Test("what may have left the ledger is never read again")
    func floor() async throws {
        try await Self.run { store, fixture in
            _ = try await store.claim(sender: "1", archive: "1@x", reader: "a")
            try await fixture.script(
                "UPDATE upstream.archive_points SET archive_id = 'old', archived_at = now() - interval '100 days'"
            )
            guard case .from(let point) = try await store.claim(sender: "1", archive: "1@x", reader: "a") else {
                Issue.record("taken")
                return
            }
            let age = (Timestamp.now - (point.time ?? .now)) / .seconds(86_400)
            // The policy's days, or 28, less one.
            #expect(point.id == nil && age > 26.9 && age < 35.1, "\(age)")
        }
    }

    @Test("where reading began stays, unless the place is set back before it")
    func begun() async throws {
        try await Self.run { store, fixture in
            func read(to point: ArchivePoint) async throws -> String? {
                _ = try await store.claim(sender: "1", archive: "1@x", reader: "a")
                _ = try await store.save(point, sender: "1", archive: "1@x", reader: "a", end: .complete)
                return try await fixture.text(
                    "SELECT round(extract(epoch FROM archived_at - begun_at)) || ' s' FROM upstream.archive_points"
                )
            }
            #expect(try await read(to: ArchivePoint(id: "7", time: Self.time)) == "0 s")
            #expect(try await read(to: ArchivePoint(id: "8", time: Self.time + .seconds(60))) == "60 s")
            try await fixture.script(
                "UPDATE upstream.archive_points SET archive_id = NULL, archived_at = archived_at - interval '1 hour'"
            )
            #expect(try await read(to: ArchivePoint(id: "8", time: Self.time + .seconds(60))) == "3600 s")
            // Further back than the ledger reaches: it is not read from there.
            try await fixture.script(
                "UPDATE upstream.archive_points SET archive_id = NULL, archived_at = now() - interval '100 days'"
            )
            _ = try await read(to: ArchivePoint(id: "8", time: Self.time))
            let days = "SELECT extract(days FROM now() - begun_at)::bigint FROM upstream.archive_points"
            #expect((26...35).contains(try await fixture.integer(days) ?? 0))
        }
    }
}
