import Foundation
import IntegrationSupport
import QuerySupport
import Testing

@Suite("questions and progress", .timeLimit(.minutes(4)))
struct ConfirmationTests {
    private static let redraw = "\r\u{1B}[K"

    private func stage() async throws -> CommandStage {
        let stage = try await CommandStage((0..<20).map { Seed(id: "m\($0)", at: Int64($0)) })
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name, seen_at) VALUES ('old', now() - interval '1 day');
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
            SELECT 'old', message_key, received_at, 1, now(), 0, 'e', 'g' FROM upstream.messages;
            """
        )
        return stage
    }

    private func count(_ table: String, _ stage: CommandStage) async throws -> String? {
        try await stage.fixture.text("SELECT count(*)::text FROM upstream.\(table)")
    }

    @Test(
        "a command that deletes asks on a terminal, and refuses without one unless --yes is given",
        arguments: [["dead", "discard", "--all"], ["handlers", "remove", "old"]]
    )
    func asks(_ command: [String]) async throws {
        let stage = try await stage()
        let piped = try await stage.run(command, input: "y\n")
        #expect(piped.status == 64 && piped.errors.contains("--yes"), "\(piped.errors)")
        for answer in ["n\n", "", "maybe\n"] {
            let refused = try await stage.run(command, columns: 80, input: answer)
            #expect(refused.status == 1 && refused.errors.contains("[y/N]"), "\(refused.errors)")
            #expect(refused.errors.contains("nothing was changed"))
        }
        #expect(try await count("dead_letters", stage) == "20")
        let done = try await stage.run(command, columns: 80, input: "yes\n")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try await count("dead_letters", stage) == "0")
    }

    @Test("--yes answers without a terminal, and no question is written")
    func confirmed() async throws {
        let stage = try await stage()
        let run = try await stage.run(["dead", "discard", "--all", "--yes"])
        #expect(run.status == 0 && run.errors == "discarded 20\n")
    }

    @Test("forget asks before it erases, and counts without asking")
    func forget() async throws {
        let stage = try await stage()
        let token = try stage.folder.write("token-SECRET-a\n".utf8, as: "token")
        let command = ["forget", "--token-file", token]
        #expect(try await stage.run(command).status == 64)
        #expect(try await stage.run(command, columns: 80, input: "n\n").status == 1)
        let counted = try await stage.run(command + ["--dry-run"])
        #expect(counted.status == 0 && counted.output.contains("WOULD BE ERASED"))
        #expect(try await count("messages", stage) == "20")
        let run = try await stage.run(command + ["--yes"])
        #expect(run.status == 0 && !(run.output + run.errors).contains("SECRET"), "\(run.errors)")
        #expect(try await count("messages", stage) == "0")
    }

    @Test("progress is drawn on a terminal's stderr only, and never on stdout")
    func progress() async throws {
        for columns in [nil, 80] as [Int?] {
            let stage = try await stage()
            let file = stage.folder.url.appending(path: "all.ndjson").path
            for command in [["messages", "export", "--output", file], ["dead", "retry", "--all"]] {
                let run = try await stage.run(command, columns: columns)
                #expect(run.status == 0, "\(run.errors)")
                #expect(run.errors.contains(Self.redraw) == (columns != nil), "\(command)")
                #expect(!run.output.contains("\u{1B}"))
            }
        }
    }
}
