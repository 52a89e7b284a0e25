import Foundation
import IntegrationSupport
import QuerySupport
import Testing

/// `conflicts` and `quarantine`: what they show, what they keep to themselves, and what a release does.
@Suite("conflicts and quarantine as commands", .timeLimit(.minutes(4)))
struct OddCommandTests {
    /// A message and two other contents that came under its id.
    private func conflicts() async throws -> (CommandStage, key: String) {
        let stage = try await CommandStage([Seed(id: "m-1", data: #"{"n":"first"}"#)])
        let others = [
            Seed(id: "m-1", data: #"{"n":"second"}"#, at: 1), Seed(id: "m-1", data: #"{"n":"third"}"#, at: 2),
        ]
        try await stage.fixture.add(others, into: "conflicts")
        return (stage, try await stage.key("m-1"))
    }

    private func prints(_ stage: CommandStage, _ key: String) async throws -> [String] {
        try await stage.run(["conflicts", "show", key, "--json"]).rows().compactMap { $0["fingerprint"] as? String }
    }

    @Test("conflicts show has the stored content and each other one, and a token only where it is asked for")
    func showsConflicts() async throws {
        let (stage, key) = try await conflicts()
        let run = try await stage.run(["conflicts", "show", key])
        #expect(run.status == 0 && run.errors.isEmpty, "\(run.errors)")
        for content in ["first", "second", "third"] { #expect(run.output.contains(content), "\(run.output)") }
        let prints = try await prints(stage, key)
        #expect(Set(prints).count == 2 && prints.allSatisfy { run.output.contains($0) })
        #expect(!run.output.contains("SECRET"))
        let revealed = try await stage.run(["conflicts", "show", key, "--reveal"])
        #expect(revealed.output.contains("token-SECRET-a"))
        let stored = try await stage.run(["messages", "list"]).objects().first?["message_key"] as? String
        #expect(stored == key)
    }

    @Test("of several contents one has to be chosen; a release reaches the subscribed handlers once, under its own key")
    func releases() async throws {
        let (stage, key) = try await conflicts()
        let release = ["conflicts", "release", key]
        let prints = try await prints(stage, key)
        let several = try await stage.run(release)
        #expect(several.status == 64 && prints.allSatisfy { several.errors.contains("--fingerprint \($0)") })
        let chosen = release + ["--fingerprint", try #require(prints.first)]
        let nobody = try await stage.run(chosen + ["--json"])
        #expect(nobody.status == 1 && nobody.output.isEmpty && nobody.errors.contains("no handler wants"))
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders'), ('other');
            INSERT INTO upstream.subscriptions VALUES ('orders', 'com.example.orders'), ('other', 'com.example.other');
            """
        )
        let done = try await stage.run(chosen + ["--json", "--reason", "a test"])
        #expect(done.status == 0, "\(done.errors)")
        let row = try #require(try done.rows().first)
        #expect(row["outcome"] as? String == "released" && row["handlers"] as? [String] == ["orders"])
        let released = try #require(row["release_key"] as? String)
        #expect(released != key)
        let waiting = "SELECT string_agg(handler || ' ' || message_key, ', ') FROM upstream.deliveries"
        #expect(try await stage.fixture.text(waiting) == "orders \(released)")
        let again = try await stage.run(chosen)
        #expect(again.status == 0 && again.errors.hasPrefix("nothing changed: it was released at "), "\(again.errors)")
        #expect(try await stage.fixture.text(waiting) == "orders \(released)")
        let shown = try await stage.run(["conflicts", "show", key])
        #expect(shown.lines.count { $0.contains("released") && $0.contains(" by upstream") } == 1, "\(shown.output)")
    }

    /// A stanza that is no message, with a token, a byte that is no text, and what a terminal would act on.
    private static let stanza =
        Array(#"<message><gcm>{"from":"token-SECRET-q","category":1}</gcm><x a=""#.utf8) + [0xFF, 0x1B, 0x5B]
        + Array(#""/></message>"#.utf8)

    private func quarantine() async throws -> CommandStage {
        let stage = try await CommandStage()
        let hex = Self.stanza.map { String(format: "%02x", $0) }.joined()
        try await stage.fixture.script(
            """
            INSERT INTO upstream.quarantine (
                sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1234567890', NULLIF('q-' || n, 'q-3'), CASE WHEN n = 2 THEN 'duplicate_key' ELSE 'category_unusable' END,
                'd', '\\x\(hex)', n::text::bytea, n, '2026-03-01 12:00Z', now()
            FROM generate_series(1, 3) AS n;
            """
        )
        return stage
    }

    @Test("quarantine show masks the token and escapes the rest; --raw gives the bytes, and to no terminal")
    func showsStanzas() async throws {
        let stage = try await quarantine()
        let run = try await stage.run(["quarantine", "show", "1"])
        #expect(run.status == 0 && run.output.contains("(masked)") && run.output.contains("category_unusable"))
        #expect(!run.output.contains("SECRET") && !run.output.contains("\u{1B}"), "\(run.output)")
        let revealed = try await stage.run(["quarantine", "show", "1", "--reveal"])
        #expect(revealed.output.contains("token-SECRET-q") && !revealed.output.contains("\u{1B}"))
        let terminal = try await stage.run(["quarantine", "show", "1", "--raw"], columns: 80)
        #expect(terminal.status == 64 && terminal.output.isEmpty && terminal.errors.contains("untrusted bytes"))
        let raw = try await stage.run(["quarantine", "show", "1", "--raw"])
        #expect(raw.status == 0 && Array(raw.output.utf8) == Array(String(decoding: Self.stanza, as: UTF8.self).utf8))
        let both = try await stage.run(["quarantine", "show", "1", "--raw", "--json"])
        #expect(both.status == 64 && both.output.isEmpty)
    }

    @Test("quarantine list and export take the same filters; an export has the bytes only with --with-tokens")
    func exports() async throws {
        let stage = try await quarantine()
        func ids(_ arguments: [String]) async throws -> [Int] {
            try await stage.run(["quarantine"] + arguments).objects().compactMap { $0["id"] as? Int }
        }
        #expect(try await ids(["list"]) == [3, 2, 1])
        #expect(try await ids(["list", "--reason", "category_unusable"]) == [3, 1])
        #expect(try await ids(["list", "--message-id", "q-2"]) == [2])
        #expect(try await ids(["list", "--limit", "1", "--after", "3"]) == [2])
        #expect(try await ids(["export"]) == [1, 2, 3])
        #expect(try await ids(["export", "--after", "1", "--reason", "category_unusable"]) == [3])
        let masked = try await stage.run(["quarantine", "export"])
        #expect(!masked.output.contains("SECRET") && !masked.output.contains("stanza_base64"), "\(masked.output)")
        let whole = try await stage.run(["quarantine", "export", "--with-tokens"]).objects()
        #expect(whole.count == 3)
        for row in whole {
            let text = try #require(row["stanza_base64"] as? String)
            #expect(Data(base64Encoded: text).map { Array($0) } == Self.stanza && row["stanza_masked"] == nil)
        }
    }

    /// One stanza that is a message by now and four that are none, and a configuration with their sender.
    private func retried() async throws -> (stage: CommandStage, configuration: String) {
        let stage = try await CommandStage([Seed(id: "m-1")])
        func stanza(_ id: String, _ more: String = #""category":"com.example.orders","data":{"a":1}"#) -> String {
            #"<message from="devices@gcm.googleapis.com"><gcm xmlns="google:mobile:data">{"message_id":"\#(id)","#
                + #""from":"token-SECRET-a",\#(more)}</gcm></message>"#
        }
        let stanzas = [
            ("1234567890", stanza("q-1")), ("1234567890", stanza("q-2", #""category":1"#)), ("99", stanza("q-3")),
            ("1234567890", stanza("q-4").replacing("devices@gcm.googleapis.com", with: "x@example.com")),
            ("1234567890", "<message/>"),
        ]
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.subscriptions (handler, category) VALUES ('orders', '*');
            """
        )
        for (sender, stanza) in stanzas {
            try await stage.fixture.script(
                """
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                VALUES ('\(sender)', 'category_unusable', 'd', convert_to('\(stanza)', 'UTF8'),
                    sha256(convert_to('\(stanza)', 'UTF8')), 1, '2026-03-01 12:00Z', '2026-03-01 12:00Z')
                """
            )
        }
        let secret = try stage.folder.write("secret".utf8, as: "key")
        let senders = "senders: [{sender_id: '1234567890', host: h.example.com, secret_file: \(secret)}]"
        let text = "database: {url: \"\(stage.fixture.url)\"}\n\(senders)\n"
        let configuration = try stage.folder.write(text.utf8, as: "senders.yaml")
        return (stage, configuration)
    }

    @Test(
        "quarantine retry stores and delivers what is a message by now, once, and leaves the others with their reason"
    )
    func retries() async throws {
        let (stage, configuration) = try await retried()
        func retry(_ arguments: String...) async throws -> CommandRun {
            try await stage.run(["quarantine", "retry", "--config", configuration] + arguments)
        }
        func stored() async throws -> String? {
            try await stage.fixture.text(
                """
                SELECT string_agg(message_id || ' ' || (SELECT count(*) FROM upstream.deliveries AS d
                    WHERE d.message_key = m.message_key), ', ' ORDER BY message_id) FROM upstream.messages AS m
                """
            )
        }
        let dry = try await retry("--all", "--dry-run", "--json")
        let found = try dry.objects().first
        #expect(dry.status == 1 && found?["stored"] as? Int == 1, "\(dry.output)\(dry.errors)")
        #expect(try await stored() == "m-1 0")
        let run = try await retry("--all", "--why", "a new version")
        #expect(run.status == 1, "\(run.errors)")
        for (id, why) in [
            (2, "category_unusable: not a string"), (3, "not in the configuration"), (4, "(trusted_from)"),
            (5, "(payload)"),
        ] {
            #expect(run.lines.contains { $0.contains(why) && $0.hasSuffix("1 (\(id))") }, "\(why): \(run.output)")
        }
        #expect(!run.output.contains("SECRET") && !run.errors.contains("SECRET"))
        #expect(try await stored() == "m-1 0, q-1 1")
        let open = try await stage.run(["quarantine", "list"]).objects().compactMap { $0["id"] as? Int }
        #expect(open == [5, 4, 3, 2])
        // As after an interruption between storing and dismissing.
        let again = try await retry("1", "--json")
        let known = try again.objects().first
        #expect(again.status == 0 && known?["duplicates"] as? Int == 1, "\(again.output)")
        #expect(try await stored() == "m-1 0, q-1 1")
        let trail = try await stage.fixture.text(
            "SELECT string_agg(concat_ws('|', action, subject, count, reason), ' ' ORDER BY id) FROM upstream.audit"
        )
        #expect(
            trail == "quarantine.retry|quarantine|5|a new version quarantine.retry.finished|quarantine|1|a new version "
                + "quarantine.retry|quarantine, 1|1 quarantine.retry.finished|quarantine, 1|1"
        )
    }

    @Test("quarantine dismiss takes one, or what the filter selects, off the list; the trail has who and why")
    func dismisses() async throws {
        let stage = try await quarantine()
        func dismiss(_ arguments: String...) async throws -> CommandRun {
            try await stage.run(["quarantine", "dismiss"] + arguments)
        }
        func ids(_ arguments: String...) async throws -> [Int] {
            try await stage.run(["quarantine", "list"] + arguments).objects().compactMap { $0["id"] as? Int }
        }
        for wrong in [[], ["1", "--all"], ["--all", "--state", "all"], ["--reason", "duplicate_key", "1"]] {
            let run = try await stage.run(["quarantine", "dismiss"] + wrong)
            #expect(run.status == 64, "\(wrong): \(run.errors)")
        }
        #expect(try await dismiss("99").status == 1)
        let dry = try await dismiss("--all", "--dry-run")
        #expect(dry.status == 0 && dry.errors == "would dismiss 3; nothing was changed\n", "\(dry.errors)")
        let one = try await dismiss("2", "--why", "known")
        #expect(one.status == 0 && one.errors == "dismissed 1\n", "\(one.errors)")
        #expect(try await ids() == [3, 1])
        // What came meanwhile is not part of it.
        try await stage.fixture.script(
            "UPDATE upstream.quarantine SET last_seen_at = now() + interval '1 h' WHERE id = 3"
        )
        let some = try await dismiss("--reason", "category_unusable", "--why", "an old app")
        #expect(some.status == 0 && some.errors == "dismissed 1\n", "\(some.errors)")
        #expect(try await ids() == [3])
        #expect(try await ids("--state", "dismissed") == [2, 1])
        let trail = try await stage.fixture.text(
            "SELECT string_agg(concat_ws('|', via, action, subject, count, reason), ' ' ORDER BY id) FROM upstream.audit"
        )
        #expect(
            trail == "command|quarantine.dismiss|quarantine, 2|1|known "
                + "command|quarantine.dismiss|quarantine, reason category_unusable|1|an old app"
        )
    }
}

extension CommandRun {
    /// Its data as the elements of one JSON array.
    fileprivate func rows() throws -> [NSDictionary] {
        try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [NSDictionary])
    }
}
