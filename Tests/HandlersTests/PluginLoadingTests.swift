import Dispatcher
import Foundation
import IntegrationSupport
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// Libraries that are no plugins, the header, and the examples.
@Suite(.serialized, .timeLimit(.minutes(10))) struct PluginLoadingTests {
    private func handler(_ library: String, configuration: String = "", host: String? = nil) throws -> PluginHandler {
        PluginHandler(
            name: "h",
            options: PluginHandler.Options(
                host: try host ?? PluginHost.find(),
                library: library,
                configuration: configuration,
                timeout: .seconds(20),
                messages: 4
            ),
            logger: .quiet
        )
    }

    private func run(_ handler: PluginHandler, _ data: [String]) async -> [HandlerVerdict] {
        var verdicts: [HandlerVerdict] = []
        for text in data {
            let message = UpstreamMessage.sample(category: "a", data: text)
            verdicts.append(await .of(handler, message, HandlerContext(handler: "h")))
        }
        await handler.shutdown()
        return verdicts
    }

    @Test("What can't be loaded is told by the probe and by the handler, and blames no message")
    func notLoaded() async throws {
        let source = "Tests/Tools/plugin/faulty.c"
        let faulty = try PluginLibrary.faulty.get()
        let other = try PluginLibrary(c: source, ["OTHER_ABI"])
        let incomplete = try PluginLibrary(c: source, ["NO_HANDLE"])
        let crashing = try PluginLibrary(c: source, ["CRASHES_AT_LOAD"])
        let host = try PluginHost.find()
        let cases = [
            ("/nowhere/plugin.so", "No such file or directory"), ("/etc/passwd", "cannot load it"),
            (other.path, "is built for version 2 of upstream_plugin.h, and this host is of version 1"),
            (incomplete.path, "has no function upstream_plugin_handle"), (crashing.path, "signal 6 (Aborted) ended it"),
        ]
        for (path, expected) in cases {
            let problem = await PluginHost.problem(with: path, host: host)
            #expect(problem?.contains(expected) == true, "\(path): \(problem ?? "-")")
            let verdict = await run(try handler(path), ["{}"])[0]
            guard case .unavailable(_, let failure) = verdict else {
                Issue.record("\(path): \(verdict)")
                continue
            }
            #expect(failure.group == "plugin can not be loaded" && failure.detail.contains(expected), "\(failure)")
        }
        #expect(await PluginHost.problem(with: faulty.path, host: host) == nil)
        for (configuration, expected) in [("refuse", "the shop is closed"), ("crash", "signal 11")] {
            let verdict = await run(try handler(faulty.path, configuration: configuration), ["{}"])[0]
            #expect(verdict.failure?.detail.contains(expected) == true, "\(verdict)")
        }
    }

    @Test("A host that ends whenever it has opened the plugin interrupts a message, and is not started on and on")
    func hostEnds() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "upstream-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let host = folder.appending(path: "host").path
        // The request that opens without a configuration has 23 bytes, its reply 10.
        let script = "#!/bin/sh\nhead -c 23 >/dev/null\nprintf '\\006\\000\\000\\000\\001\\000\\000\\000\\000\\000'\n"
        try script.write(toFile: host, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: host)
        let verdict = await run(try handler("/nowhere/plugin.so", host: host), ["{}"])[0]
        guard case .interrupted = verdict else {
            Issue.record("\(verdict)")
            return
        }
    }

    @Test("A missing host is told with the places where it was looked for")
    func noHost() async throws {
        let error = #expect(throws: HandlerProblem.self) { try PluginHost.find(configured: "/nowhere/host") }
        #expect(error?.message == "there is no program /nowhere/host")
        let faulty = try PluginLibrary.faulty.get()
        for host in ["/nowhere/host", "/bin/cat", "/bin/true"] {
            guard case .unavailable(_, let failure) = await run(try handler(faulty.path, host: host), ["{}"])[0] else {
                Issue.record("\(host)")
                continue
            }
            #expect(failure.detail.contains(host))
        }
    }

    @Test("A library that never loads is tried again with back-off")
    func backoff() async throws {
        let verdicts = await run(try handler("/nowhere/plugin.so"), Array(repeating: "{}", count: 3))
        guard case .unavailable(let wait?, _) = verdicts.last else {
            Issue.record("not held back: \(verdicts)")
            return
        }
        #expect(wait > .zero && wait <= RestartBackoff.waits.maximum)
    }

    @Test("The header compiles as C89 and C++11, with every warning an error")
    func header() throws {
        for (compiler, standard) in [("cc", "c89"), ("cc", "c11"), ("c++", "c++11")] {
            let language = compiler == "cc" ? "c" : "c++"
            try PluginLibrary.run([
                compiler, "-x", language, "-std=\(standard)", "-pedantic", "-Wall", "-Wextra", "-Werror",
                "-Wno-pragma-once-outside-header", "-fsyntax-only", "\(PluginLibrary.include)/upstream_plugin.h",
            ])
        }
        try PluginLibrary.run([
            "cc", "-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I\(PluginLibrary.include)",
            PluginLibrary.package.appending(path: "Examples/plugin/c/orders.c").path,
        ])
    }

    @Test("The example in C is built by its Makefile, takes orders and rejects what is none")
    func exampleInC() async throws {
        let library = try PluginLibrary {
            ["make", "-s", "-C", PluginLibrary.package.appending(path: "Examples/plugin/c").path, "OUTPUT=\($0)"]
        }
        let notes = try PluginNotes()
        let file = notes.folder.appending(path: "orders").path
        let verdicts = await run(
            try handler(library.path, configuration: file),
            [#"{"item":"tea","quantity":2}"#, "{}"]
        )
        #expect(verdicts == [.done, .reject(HandlerFailure("an order needs an item"))])
        let lines = notes.lines("orders")
        #expect(lines.count == 1 && lines[0].hasSuffix(#" {"item":"tea","quantity":2}"#))
        let refused = await run(try handler(library.path, configuration: "/nowhere/orders"), ["{}"])[0]
        #expect(refused.failure?.detail.contains("No such file or directory") == true)
    }

    @Test("The plugin that docs/handlers.md shows is built and takes messages")
    func shownPlugin() async throws {
        let page = PluginLibrary.package.appending(path: "docs/handlers.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let start = try #require(text.range(of: "```c\n"))
        let end = try #require(text.range(of: "```\n", range: start.upperBound..<text.endIndex))
        let notes = try PluginNotes()
        let source = notes.folder.appending(path: "orders.c")
        try String(text[start.upperBound..<end.lowerBound]).write(to: source, atomically: true, encoding: .utf8)
        let library = try PluginLibrary { path in
            [
                "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-I\(PluginLibrary.include)", "-o", path,
                source.path,
            ]
        }
        #expect(await run(try handler(library.path), ["{}", "{}"]) == [.done, .done])
    }

    @Test("The example in Swift is built by the command in it, and brings its own runtime into the plugin's process")
    func exampleInSwift() async throws {
        let source = PluginLibrary.package.appending(path: "Examples/plugin/swift/Orders.swift").path
        let text = try String(contentsOfFile: source, encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.contains("swiftc ") })
        let library = try PluginLibrary { path in
            line.split(separator: " ").dropFirst().map { word in
                switch word {
                case "upstream_plugin.h": "\(PluginLibrary.include)/upstream_plugin.h"
                case "orders.so": path
                case "Orders.swift": source
                default: String(word)
                }
            }
        }
        // As it is shipped, without Swift's runtime; the build for tests links it in.
        let host = try PluginLibrary { path in
            let folder = PluginLibrary.package.appending(path: "Sources/PluginHost").path
            return ["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I\(PluginLibrary.include)", "-o", path]
                + ["main.c", "supervisor.c", "runner.c"].map { "\(folder)/\($0)" } + ["-ldl"]
        }
        #expect(!(try PluginLibrary.run(["ldd", host.path])).contains("swift"))
        let data = [#"{"item":"tea","quantity":2}"#, #"{"item":"tea","quantity":0}"#, "[]"]
        let verdicts = await run(try handler(library.path, host: host.path), data)
        #expect(
            verdicts == [
                .done, .reject(HandlerFailure("an order needs a quantity above zero")),
                .reject(HandlerFailure("the data is not an order")),
            ]
        )
    }
}
