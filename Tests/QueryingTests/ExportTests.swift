import Foundation
import Postgres
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("exports", .timeLimit(.minutes(10)))
struct ExportTests {
    /// A folder that goes away with the test.
    final class Folder {
        let path = "/tmp/upstream-export-\(UInt64.random(in: 0...UInt64.max))"

        init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        subscript(_ name: String) -> String { path + "/" + name }
    }

    private static let seeds =
        Awkward.seeds
        + (0..<60).map { Seed(id: "m\($0)", data: "{\"n\":\($0),\"s\":\"a,\\\"b\\\"\"}", at: 1_000 + Int64($0 / 3)) }

    private func export(_ format: MessageLines.Format, tokens: Bool = true) -> MessageExport {
        var export = MessageExport(MessageFilter(), format, tokens: tokens)
        export.pageRows = 7
        return export
    }

    private func bytes(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(filePath: path))) }

    @Test("a file holds every message once, oldest first, and only its owner may read it")
    func whole() async throws {
        let fixture = try await QueryFixture(Self.seeds)
        let folder = try Folder()
        let path = folder["all.ndjson"]
        let done = try await export(.ndjson).run(to: .open(path, isResumed: false), after: nil, fixture.reader) { _ in }
        let lines = try bytes(path).split(separator: 0x0A)
        #expect(done.rows == Int64(Self.seeds.count) && lines.count == Self.seeds.count)
        #expect(done.bytes == Int64(try bytes(path).count))
        let ids = try lines.map { line in
            (try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])?["message_id"] as? String
        }
        #expect(ids == (try await fixture.page().messages.map(\.message.messageID)))
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test("what a worker's clock has stamped ahead of the database's is exported, and what comes later is not")
    func ahead() async throws {
        let now = try await QueryFixture().reader.databaseTime()
        let later = (now - QueryFixture.start + .seconds(600)).microseconds
        let fixture = try await QueryFixture([Seed(id: "past", at: 0), Seed(id: "ahead", at: later)])
        var export = export(.ndjson)
        export.filter.until = try await MessageExport.end(fixture.reader)
        #expect(export.filter.until == QueryFixture.start + .microseconds(later + 1))
        let folder = try Folder()
        let file = try ExportFile.open(folder["all.ndjson"], isResumed: false)
        #expect(try await export.run(to: file, after: nil, fixture.reader) { _ in }.rows == 2)
    }

    @Test(
        "cut anywhere, even inside a line or a quoted field, it is continued to the same bytes",
        arguments: [MessageLines.Format.ndjson, .csv]
    )
    func resumes(_ format: MessageLines.Format) async throws {
        let fixture = try await QueryFixture(Self.seeds)
        let folder = try Folder()
        let path = folder["whole"]
        _ = try await export(format).run(to: .open(path, isResumed: false), after: nil, fixture.reader) { _ in }
        let whole = try bytes(path)
        // Every place in the lines of the awkward messages would take long; a stride that meets all kinds does.
        for length in stride(from: 0, through: whole.count, by: 97) + [1, 2, whole.count - 1, whole.count] {
            let torn = folder["torn"]
            try Data(whole[..<length]).write(to: URL(filePath: torn))
            let export = export(format)
            let file = try ExportFile.open(torn, isResumed: true)
            let start = try export.resume(file)
            _ = try await export.run(to: file, after: start, fixture.reader) { _ in }
            let joined = try bytes(torn)
            #expect(joined == whole, "cut at \(length)")
        }
    }

    @Test("whatever number and nesting its last line has, it is continued")
    func oddLastLine() async throws {
        let deep = String(repeating: "[", count: 2_000) + String(repeating: "]", count: 2_000)
        for last in [Seed(id: "n", data: #"{"n":1e400}"#, at: 1), Seed(id: "d", extra: #"{"d":\#(deep)}"#, at: 1)] {
            let fixture = try await QueryFixture([Seed(id: "first"), last])
            let folder = try Folder()
            func open(isResumed: Bool) throws -> ExportFile {
                try ExportFile.open(folder["all"], isResumed: isResumed)
            }
            let done = try await export(.ndjson).run(to: open(isResumed: false), after: nil, fixture.reader) { _ in }
            let place = try export(.ndjson).resume(open(isResumed: true))
            #expect(done.rows == 2 && place != nil && place == done.cursor, "\(last.id)")
        }
    }

    @Test("an export that was cancelled between pages continues where it was")
    func cancelled() async throws {
        let fixture = try await QueryFixture(Self.seeds)
        let folder = try Folder()
        let path = folder["stopped"]
        struct Stop: Error {}
        let export = export(.ndjson)
        let first = Task {
            try await export.run(to: .open(path, isResumed: false), after: nil, fixture.reader) { progress in
                if progress.rows >= 21 { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        await #expect(throws: (any Error).self) { try await first.value }
        let part = try bytes(path).split(separator: 0x0A).count
        #expect(part >= 21 && part < Self.seeds.count)
        let file = try ExportFile.open(path, isResumed: true)
        let rest = try await export.run(to: file, after: export.resume(file), fixture.reader) { _ in }
        #expect(rest.rows == Int64(Self.seeds.count - part))
        let ids = try bytes(path).split(separator: 0x0A).map { line in
            (try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])?["message_id"] as? String
        }
        #expect(ids == (try await fixture.page().messages.map(\.message.messageID)))
    }

    @Test("an existing file is not overwritten, and one that is not an export is not continued")
    func refusals() async throws {
        let fixture = try await QueryFixture(Self.seeds)
        let folder = try Folder()
        func kind(_ body: () throws -> Void) -> ExportError.Kind? {
            do {
                try body()
                return nil
            } catch {
                return (error as? ExportError)?.kind
            }
        }
        func content(_ text: String) throws -> String {
            try Data(text.utf8).write(to: URL(filePath: folder["x"]))
            return folder["x"]
        }
        #expect(kind { _ = try ExportFile.open(content("a\n"), isResumed: false) } == .refused)
        #expect(kind { _ = try ExportFile.open(folder["no/such/folder"], isResumed: false) } == .refused)
        for text in ["a\n", "{}\n", #"{"message_key":"x","received_at":"2026-01-01"}"# + "\n", "\n"] {
            #expect(
                kind { _ = try export(.ndjson).resume(.open(content(text), isResumed: true)) } == .mismatch,
                "\(text)"
            )
        }
        #expect(
            kind { _ = try export(.csv).resume(.open(content("a,b,c\r\n1,2,3\r\n"), isResumed: true)) } == .mismatch
        )
        // An export with other columns is something else, too.
        for format in [MessageLines.Format.ndjson, .csv] {
            let path = folder["\(format)"]
            _ = try await export(format).run(to: .open(path, isResumed: false), after: nil, fixture.reader) { _ in }
            #expect(kind { _ = try export(format, tokens: false).resume(.open(path, isResumed: true)) } == .mismatch)
        }
        // Whoever holds the file keeps others out.
        let held = try ExportFile.open(folder["held"], isResumed: false)
        #expect(kind { _ = try ExportFile.open(folder["held"], isResumed: true) } == .refused)
        withExtendedLifetime(held) {}
    }

    @Test("an empty result is an empty file, or only a header row")
    func empty() async throws {
        let fixture = try await QueryFixture()
        let folder = try Folder()
        for (format, lines) in [(MessageLines.Format.ndjson, 0), (.csv, 1)] {
            let path = folder["\(format)"]
            let done = try await export(format).run(to: .open(path, isResumed: false), after: nil, fixture.reader) {
                _ in
            }
            #expect(done.rows == 0)
            #expect(try bytes(path).split(separator: 0x0A).count == lines)
            // Resuming such a file starts anew.
            let file = try ExportFile.open(path, isResumed: true)
            #expect(try export(format).resume(file) == nil)
        }
    }

    @Test("a full disk is an error that names the file")
    func full() async throws {
        let fixture = try await QueryFixture(Self.seeds)
        let error = await #expect(throws: ExportError.self) {
            _ = try await export(.ndjson).run(to: .open("/dev/full", isResumed: true), after: nil, fixture.reader) {
                _ in
            }
        }
        #expect(error?.kind == .output && error?.description.contains("No space left") == true)
    }
}
