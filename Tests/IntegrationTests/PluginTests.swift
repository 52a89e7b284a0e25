import CCSEmulator
import Foundation
import Glibc
import IntegrationSupport
import Testing

extension Integration {
    /// A shared library as handler: the real worker, the real host, and a plugin that does what messages ask it to.
    @Suite struct PluginTests {
        /// Builds `Tests/Tools/plugin/faulty.c` into the stage's folder; returns the library's path.
        static func build(_ stage: Stage, _ definitions: [String] = []) throws -> String {
            let library = stage.folder.url.appending(path: "faulty-\(definitions.count).so").path
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments =
                ["cc", "-shared", "-fPIC", "-I\(projectFolder.path)/Sources/PluginHost/include", "-o", library]
                + definitions.map { "-D\($0)" } + ["\(projectFolder.path)/Tests/Tools/plugin/faulty.c"]
            try process.run()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
            return library
        }

        private func handlers(_ stage: Stage, _ library: String, _ more: String = "") -> String {
            """
            - name: orders
              categories: ["com.example.orders"]
              concurrency: 16
              timeout: 1s
              retry: {max_attempts: 2, initial: 10ms, maximum: 20ms}
              plugin: {path: \(library), configuration: "\(stage.folder.url.path)"\(more)}
            """
        }

        private func notes(_ stage: Stage, _ name: String) -> [String] {
            let text = (try? String(contentsOf: stage.folder.url.appending(path: name), encoding: .utf8)) ?? ""
            return text.split(separator: "\n").map(String.init)
        }

        private func isRunning(_ process: Int32) -> Bool {
            let stat = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
            // A zombie waits for init, which a container may not have.
            return !stat.isEmpty && !stat.contains(") Z ")
        }

        @Test("Messages that crash, end or hang the plugin cost themselves their attempts, and no other message one")
        func crashes() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.handlers = handlers(stage, try Self.build(stage))
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                let faults = ["segfault", "abort", "exit0", "kill", "scribble", "loop"]
                let data = (0..<60).map { index in
                    index % 10 == 4 ? #"{"do":"\#(faults[index / 10])"}"# : #"{"n":\#(index)}"#
                }
                try await stage.send(data: data)
                try await stage.database.waitUntilHandled(60)
                let dead = try await stage.database.deadLetters()
                #expect(
                    dead
                        == faults.map { fault in
                            "orders|2|"
                                + (fault == "loop"
                                    ? "plugin gave no answer in time" : "plugin ended before it answered")
                        }
                )
                try await waitUntil("the history is written") {
                    try await stage.database.integer("SELECT count(*) FROM upstream.attempts WHERE outcome = 'done'")
                        == 54
                }
                // Six bad ones were tried twice; nothing else was ever counted.
                let counted = "SELECT outcome || ' ' || attempt || ' ' || count(*) FROM upstream.attempts"
                #expect(
                    try await stage.database.texts("\(counted) GROUP BY outcome, attempt ORDER BY outcome, attempt")
                        == [
                            "done 1 54", "exhausted 2 6", "retry 1 6",
                        ]
                )
                #expect(await stage.emulator.tally().acked == 60, "and every message was acked")
                // The last fault may have ended the last host.
                try await stage.send(data: ["{}"], idPrefix: "last")
                try await stage.database.waitUntilHandled(61)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(notes(stage, "closed").count >= 1)
                for line in notes(stage, "starts") { #expect(!isRunning(try #require(Int32(line)))) }
            }
        }

        @Test("A host that is killed costs no message an attempt")
        func hostKilled() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.handlers = handlers(stage, try Self.build(stage))
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: [#"{"n":0}"#])
                try await waitUntil("the plugin runs") { notes(stage, "messages").count == 1 }
                let gate = stage.folder.url.appending(path: "gate").path
                mkfifo(gate, 0o600)
                try await stage.send(data: [#"{"do":"wait"}"#], idPrefix: "held")
                try await waitUntil("a call is under way") { notes(stage, "messages").contains { $0.contains("wait") } }
                let runner = try #require(notes(stage, "starts").last.flatMap { Int32($0) })
                let stat = try String(contentsOfFile: "/proc/\(runner)/stat", encoding: .utf8)
                let host = try #require(stat.split(separator: ")").last?.split(separator: " ").dropFirst().first)
                // The second time it doesn't wait.
                unlink(gate)
                kill(try #require(Int32(host)), SIGKILL)
                try await stage.send(data: (1..<10).map { #"{"n":\#($0)}"# }, idPrefix: "after")
                try await stage.database.waitUntilHandled(11)
                #expect(try await stage.database.deadLetters() == [])
                #expect(try await stage.database.integer("SELECT max(attempt) FROM upstream.attempts") == 1)
                #expect(!isRunning(runner), "the plugin's process went with its host")
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("The host and the plugin end with a worker that is killed")
        func workerKilled() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.handlers = handlers(stage, try Self.build(stage))
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: ["{}"])
                try await waitUntil("the plugin runs") { notes(stage, "messages").count == 1 }
                let runner = try #require(notes(stage, "starts").last.flatMap { Int32($0) })
                #expect(isRunning(runner))
                worker.send(SIGKILL)
                #expect(try await worker.exitCode() == -SIGKILL)
                try await waitUntil("it has ended") { !isRunning(runner) }
            }
        }

        @Test("A plugin that hangs while it opens holds up no shutdown, and its messages stay as they were")
        func hangsAtOpen() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.grace = "10s"
                options.handlers = handlers(stage, try Self.build(stage))
                    .replacingOccurrences(of: "timeout: 1s", with: "timeout: 60s")
                    .replacingOccurrences(of: #"configuration: ""#, with: #"configuration: "hang "#)
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: ["{}"])
                try await waitUntil("the plugin opens") { !notes(stage, "opening").isEmpty }
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(try worker.events("worker.grace_expired").isEmpty)
                #expect(try await stage.database.waitingDeliveries() == 1)
                let counted = "SELECT count(*) FROM upstream.deliveries WHERE attempts > 0"
                #expect(try await stage.database.integer(counted) == 0)
                let runner = try #require(notes(stage, "opening").first.flatMap { Int32($0) })
                try await waitUntil("it has ended") { !isRunning(runner) }
            }
        }

        @Test("A plugin that can't be opened fails the handler, not the messages; check finds a library that is none")
        func notLoaded() async throws {
            try await Stage.run { stage in
                let library = try Self.build(stage)
                var options = WorkerOptions()
                options.handlers = handlers(stage, library).replacingOccurrences(
                    of: #"configuration: "\#(stage.folder.url.path)""#,
                    with: "configuration: refuse"
                )
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: (0..<30).map { #"{"n":\#($0)}"# })
                try await worker.waitForEvent("handler.failing")
                try await waitUntil("all are stored, and wait") {
                    try await stage.database.waitingDeliveries() == 30
                }
                #expect(try await stage.database.deadLetters() == [])
                let counted = "SELECT count(*) FROM upstream.deliveries WHERE attempts > 0"
                #expect(try await stage.database.integer(counted) == 0)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)

                for (path, expected) in [
                    (try Self.build(stage, ["OTHER_ABI"]), "is built for version 2"), ("/etc/passwd", "cannot load it"),
                    (library, nil),
                ] as [(String, String?)] {
                    options.handlers = handlers(stage, path)
                    let check = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder, command: ["check"])
                    #expect(try await check.exitCode() == (expected == nil ? 0 : 78))
                    let text = try check.logText()
                    #expect(
                        expected.map { text.contains("handlers.0.plugin.path") && text.contains($0) } ?? true,
                        "\(text)"
                    )
                }
                options.handlers = handlers(stage, library, ", host: /etc/passwd")
                let check = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder, command: ["check"])
                #expect(try await check.exitCode() == 78)
                #expect(try check.logText().contains("there is no program /etc/passwd"))
            }
        }

        @Test("A handler's rate holds, retries included, while acks go on as fast as ever")
        func rate() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.handlers = """
                    - {name: orders, categories: ["com.example.orders"], rate: 20/s, log: {}}
                    - {name: free, categories: ["com.example.orders"], log: {}}
                    """
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: (0..<80).map { #"{"n":\#($0)}"# })
                try await waitUntil("the other handler has all") { try await worker.deliveries("free", "done") == 80 }
                #expect(await stage.emulator.tally().acked == 80)
                #expect(try await worker.deliveries("orders", "done") < 80, "the slow one has not")
                try await stage.database.waitUntilHandled(80)
                // In no second more than 20 begin beside a burst of 20; on a busy machine a settlement may come half a second after
                // its attempts' ages were taken, and they seem to begin so much later.
                let busiest = """
                    SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY started_at
                        RANGE BETWEEN '999 milliseconds' PRECEDING AND CURRENT ROW) AS n
                    FROM upstream.attempts WHERE handler = 'orders') AS windows
                    """
                #expect(try await stage.database.integer(busiest) <= 50)
                let span = "SELECT extract(epoch FROM max(started_at) - min(started_at)) * 1000 FROM upstream.attempts"
                #expect(try await stage.database.integer("\(span) WHERE handler = 'orders'") >= 2_900)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }
    }
}
