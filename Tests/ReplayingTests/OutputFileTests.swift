import Foundation
import Glibc
import Testing

@testable import Replaying

@Suite("a replay's file: nothing that the replay has not written is changed or replaced")
struct OutputFileTests {
    /// A folder of its own, gone with the test.
    private final class Folder {
        let path = "/tmp/upstream-output-\(UInt64.random(in: 0...UInt64.max))"
        init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) }
        deinit { try? FileManager.default.removeItem(atPath: path) }
        subscript(name: String) -> String { path + "/" + name }

        func put(_ text: String, in name: String) throws {
            try text.write(toFile: self[name], atomically: false, encoding: .utf8)
            chmod(self[name], 0o600)
        }
        func text(_ name: String) -> String? { try? String(contentsOfFile: self[name], encoding: .utf8) }
        var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }
    }

    private func kind(_ body: () throws -> Void) -> ReplayError.Kind? {
        do {
            try body()
            return nil
        } catch {
            return (error as? ReplayError)?.kind
        }
    }

    /// Opens, writes and closes, as a run that ends before its end.
    private func run(
        _ folder: Folder,
        from bytes: Int64 = 0,
        _ mark: OutputMark = OutputMark(nil),
        write text: String = "",
        isWhole: Bool = false
    ) throws -> OutputMark {
        let file = try OutputFile(folder["f"], from: bytes, mark)
        defer { close(file.descriptor) }
        _ = Array(text.utf8).withUnsafeBytes { Glibc.write(file.descriptor, $0.baseAddress, $0.count) }
        if isWhole { try file.finish() }
        return file.mark
    }

    @Test("a run continues its own file, renames it when complete, and replaces it when everything is sent again")
    func own() throws {
        let folder = try Folder()
        var mark = try run(folder, write: "one two")
        #expect(folder.names == ["f.partial"])
        #expect(OutputMark(mark.text) == mark)
        mark = try run(folder, from: 3, OutputMark(mark.text), write: " three", isWhole: true)
        #expect(folder.names == ["f"] && folder.text("f") == "one three")
        // Killed between giving it its name and saying so.
        #expect(try run(folder, from: 9, mark, isWhole: true) == mark)
        #expect(folder.text("f") == "one three")
        // Again, killed in between, and to the end: the old one is there until the new one is.
        mark = try run(folder, mark, write: "ag")
        #expect(folder.names == ["f", "f.partial"] && folder.text("f") == "one three")
        mark = try run(folder, from: 2, OutputMark(mark.text), write: "ain", isWhole: true)
        #expect(folder.names == ["f"] && folder.text("f") == "again")
    }

    @Test("an existing file of any kind is refused, however often it is tried")
    func foreign() throws {
        let folder = try Folder()
        try folder.put("theirs", in: "f")
        for _ in 0..<3 { #expect(kind { _ = try run(folder) } == .refused) }
        #expect(kind { _ = try run(folder, OutputMark(current: FileIdentity("1:2"))) } == .refused)
        #expect(folder.names == ["f"] && folder.text("f") == "theirs")
        for target in ["nowhere", "other"] {
            unlink(folder["f"])
            try folder.put("theirs", in: "other")
            symlink(folder[target], folder["f"])
            #expect(kind { _ = try run(folder) } == .refused)
        }
        #expect(folder.text("other") == "theirs")
    }

    @Test("a .partial is refused if it is another file, a link, has two names, or is writable by others")
    func foreignPartial() throws {
        let folder = try Folder()
        try folder.put("theirs", in: "f.partial")
        #expect(kind { _ = try run(folder) } == .refused)
        #expect(kind { _ = try run(folder, from: 3, OutputMark(current: FileIdentity("1:2"))) } == .refused)
        #expect(folder.text("f.partial") == "theirs")
        unlink(folder["f.partial"])
        try folder.put("theirs", in: "target")
        symlink(folder["target"], folder["f.partial"])
        let target = FileIdentity(at: folder["target"])
        for bytes: Int64 in [0, 3] {
            #expect(kind { _ = try run(folder, from: bytes, OutputMark(current: target)) } == .refused)
        }
        #expect(folder.text("target") == "theirs")
        unlink(folder["f.partial"])

        let mark = try run(folder, write: "ours")
        chmod(folder["f.partial"], 0o620)
        #expect(kind { _ = try run(folder, from: 4, mark) } == .refused)
        chmod(folder["f.partial"], 0o600)
        link(folder["f.partial"], folder["second"])
        #expect(kind { _ = try run(folder, from: 4, mark) } == .refused)
        unlink(folder["second"])
        if geteuid() == 0 {
            chown(folder["f.partial"], 1, 1)
            #expect(kind { _ = try run(folder, from: 4, mark) } == .refused)
            chown(folder["f.partial"], 0, 0)
        }
        // Copied back, it is another file.
        rename(folder["f.partial"], folder["copy"])
        try folder.put("ours", in: "f.partial")
        #expect(kind { _ = try run(folder, from: 4, mark) } == .refused)
        unlink(folder["f.partial"])
        #expect(kind { _ = try run(folder, from: 4, mark) } == .invalid)
        rename(folder["copy"], folder["f.partial"])
        #expect(kind { _ = try run(folder, from: 5, mark) } == .invalid, "shorter than what was written")
        _ = try run(folder, from: 4, mark, write: "!", isWhole: true)
        #expect(folder.text("f") == "ours!")
    }

    @Test("an empty file that a killed run left is continued")
    func empty() throws {
        let folder = try Folder()
        try folder.put("", in: "f.partial")
        _ = try run(folder, write: "x", isWhole: true)
        #expect(folder.names == ["f"])
    }

    @Test("a file that appears during the run, or replaces ours, is not replaced")
    func appears() throws {
        let folder = try Folder()
        let file = try OutputFile(folder["f"], from: 0, OutputMark(nil))
        defer { close(file.descriptor) }
        try folder.put("theirs", in: "f")
        #expect(kind { try file.finish() } == .refused)
        #expect(folder.text("f") == "theirs")
        unlink(folder["f"])
        rename(folder["f.partial"], folder["away"])
        try folder.put("theirs", in: "f.partial")
        #expect(kind { try file.finish() } == .refused)
        unlink(folder["f.partial"])
        rename(folder["away"], folder["f.partial"])
        try file.finish()

        let again = try OutputFile(folder["f"], from: 0, file.mark)
        defer { close(again.descriptor) }
        unlink(folder["f"])
        // On file systems that give an inode's number away at once, this keeps it taken.
        link(folder["f.partial"], folder["f.other"])
        try folder.put("theirs", in: "f")
        if FileIdentity(at: folder["f"]) != file.mark.current {
            #expect(kind { try again.finish() } == .refused)
            #expect(folder.text("f") == "theirs" && folder.names == ["f", "f.other", "f.partial"])
        }
    }

    @Test("a replay that was refused because of a foreign file is refused again when it is started again")
    func startedTwice() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(20)
        let folder = try Folder()
        try folder.put("theirs", in: "f")
        try await fixture.plan(fixture.request("r", .other(.output(path: folder["f"], format: .ndjson))))
        for event in [ReplayEvent.start, .start, .startAgain] {
            let replay = try await fixture.apply(event)
            guard case .failed(.refused, _) = try await fixture.runner().run(replay) else {
                Issue.record("the file was taken")
                continue
            }
            #expect(folder.text("f") == "theirs")
        }
        unlink(folder["f"])
        try await fixture.apply(.start)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        let first = try #require(folder.text("f"))
        try await fixture.apply(.startAgain)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        #expect(folder.text("f") == first && folder.names == ["f"])
    }
}
