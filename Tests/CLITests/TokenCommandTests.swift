import Foundation
import IntegrationSupport
import QuerySupport
import Testing

/// Commands that name a device by a file with its token, since nobody else may see it.
@Suite("a device by its token's file", .timeLimit(.minutes(10)))
struct TokenCommandTests {
    private func stage() async throws -> CommandStage {
        try await CommandStage([
            Seed(id: "a-1", token: "token-SECRET-a"), Seed(id: "b-1", token: "token-SECRET-b", at: 1),
            Seed(id: "a-2", token: "token-SECRET-a", at: 2), Seed(id: "c-1", token: "token-SECRET-a\u{301}", at: 3),
        ])
    }

    private func ids(_ stage: CommandStage) async throws -> [String] {
        try await stage.run(["messages", "list", "--reverse"]).objects().compactMap { $0["message_id"] as? String }
    }

    @Test("forget erases the one device that messages list finds by the same file, and no other")
    func forget() async throws {
        let stage = try await stage()
        // As editors of Windows write it.
        let file = try stage.folder.write("\u{FEFF}token-SECRET-a\r\n".utf8, as: "token")
        let found = try await stage.run(["messages", "list", "--from-token-file", file]).objects()
        #expect(found.compactMap { $0["message_id"] as? String } == ["a-2", "a-1"])
        let command = ["forget", "--token-file", file, "--json"]
        for (option, isDryRun) in [("--dry-run", true), ("--yes", false)] {
            let run = try await stage.run(command + [option])
            #expect(run.status == 0 && !(run.output + run.errors).contains("SECRET"), "\(run.errors)")
            let object = try #require(try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? NSDictionary)
            #expect(object["messages"] as? Int == 2 && object["dry_run"] as? Bool == isDryRun)
            #expect(object["device_key"] as? String == found.first?["device_key"] as? String)
            #expect(try await ids(stage) == (isDryRun ? ["a-1", "b-1", "a-2", "c-1"] : ["b-1", "c-1"]))
        }
    }

    @Test(
        "a file that holds no single token is refused before anything is asked of the database, and is not quoted",
        arguments: [
            ([], "is empty"), (Array("\n\n".utf8), "is empty"),
            (Array("SECRET-1\nSECRET-2\n".utf8), "more than one line"),
            (Array("SECRET\u{0}\n".utf8), "NUL"), (Array("SECRET".utf8) + [0xFF, 0x0A], "not a registration token"),
            (Array("SECRET".utf8) + Array(repeating: 0x61, count: 4_091), "not a registration token"),
        ] as [([UInt8], String)]
    )
    func refused(_ bytes: [UInt8], _ why: String) async throws {
        let stage = try await CommandStage()
        let down = try stage.folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "down.yaml")
        let file = try stage.folder.write(bytes, as: "token")
        let run = try await stage.run(["forget", "--token-file", file, "--yes", "--config", down])
        #expect(run.status == 65 && run.output.isEmpty && run.errors.contains(why), "\(run.errors)")
        #expect(!run.errors.contains("SECRET"))
    }

    @Test("without a file forget says how to name the device; a file that isn't there is exit code 66")
    func missing() async throws {
        let stage = try await stage()
        let none = try await stage.run(["forget", "--yes"])
        #expect(none.status == 64 && none.errors.contains("--token-file FILE"), "\(none.errors)")
        let gone = try await stage.run(["forget", "--yes", "--token-file", "/nowhere/token"])
        #expect(gone.status == 66 && gone.errors.contains("/nowhere/token"), "\(gone.errors)")
        #expect(try await ids(stage).count == 4)
    }
}
