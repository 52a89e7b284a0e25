import Dispatcher
import Foundation
import Testing

@testable import Handlers

/// The trace that a plugin is given to pass on.
@Suite(.serialized, .timeLimit(.minutes(10))) struct PluginTraceTests {
    private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test("A plugin gets the trace of each attempt, and none where tracing is off")
    func given() async throws {
        let plugin = try FaultyPlugin()
        for trace in [(Self.parent, "vendor=1,other=2"), (Self.parent, nil), nil] as [(String, String?)?] {
            #expect(await plugin.run(["trace"], trace: trace) == [.done])
        }
        #expect(plugin.notes.lines("traces") == ["\(Self.parent) vendor=1,other=2", "\(Self.parent) -", "- -"])
        await plugin.handler.shutdown()
    }

    /// A header that differs from ours by what a pattern matches, in a folder of its own; with the host's sources beside it.
    private func changed(_ file: String, without pattern: Regex<Substring>, by text: String = "") throws -> PluginNotes
    {
        let folder = try PluginNotes()
        let sources = PluginLibrary.package.appending(path: "Sources/PluginHost")
        for name in ["host.h", "main.c", "supervisor.c", "runner.c", "include/upstream_plugin.h"] {
            let source = try String(contentsOf: sources.appending(path: name), encoding: .utf8)
            let isMeant = name.hasSuffix(file)
            let changed = isMeant ? source.replacing(pattern, with: text) : source
            #expect(!isMeant || changed != source, "\(file) has nothing of \(pattern)")
            let place = URL(filePath: name).lastPathComponent
            try changed.write(to: folder.folder.appending(path: place), atomically: true, encoding: .utf8)
        }
        return folder
    }

    @Test("A plugin that was built before the trace was there works on")
    func builtBefore() async throws {
        let header = try changed(
            "upstream_plugin.h",
            without: /\ \ \ \ upstream_text trace[^\n]*\n|#define UPSTREAM_HAS[^\n]*\n[^\n]*\n/
        )
        let library = try PluginLibrary { path in
            [
                "cc", "-shared", "-fPIC", "-I\(header.folder.path)", "-o", path,
                PluginLibrary.package.appending(path: "Tests/Tools/plugin/faulty.c").path,
            ]
        }
        let plugin = try FaultyPlugin(library: library.path)
        let verdicts = try await plugin.together(["trace", "retry", "{}"])
        #expect(verdicts[0] == .done && group(verdicts[1]) == "busy" && verdicts[2] == .done)
        #expect(plugin.notes.lines("traces").isEmpty && plugin.notes.calls == [1, 3])
        await plugin.handler.shutdown()
    }

    @Test("A host of another version is refused and blames no message")
    func otherHost() async throws {
        let sources = try changed("host.h", without: /#define PROTOCOL 2/, by: "#define PROTOCOL 1")
        let host = try PluginLibrary { path in
            ["cc", "-std=c11", "-I\(sources.folder.path)", "-o", path]
                + ["main.c", "supervisor.c", "runner.c"].map { "\(sources.folder.path)/\($0)" } + ["-ldl"]
        }
        let plugin = try FaultyPlugin(host: host.path)
        let verdict = await plugin.run(["{}"])[0]
        guard case .unavailable(_, let failure) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(failure.detail.contains("does not answer as a plugin host of this version does"))
        await plugin.handler.shutdown()
        #expect(plugin.notes.starts.isEmpty)
    }
}
