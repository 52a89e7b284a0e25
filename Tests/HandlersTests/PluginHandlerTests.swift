import Dispatcher
import Foundation
import Glibc
import IntegrationSupport
import Testing
import UpstreamKit

@testable import Handlers

/// Plugins in the real host, driven as the worker drives them.
@Suite(.serialized, .timeLimit(.minutes(10))) struct PluginHandlerTests {
    @Test("Outcomes come back as the plugin set them, for a whole batch in one call")
    func outcomes() async throws {
        let plugin = try FaultyPlugin()
        let verdicts = try await plugin.together(["{}", "retry", "reject", "unset", "unknown", "long", "longer"])
        #expect(verdicts[0] == .done)
        #expect(verdicts[1] == .retry(after: .seconds(90), HandlerFailure("busy")))
        #expect(verdicts[2] == .reject(HandlerFailure("no")))
        #expect(group(verdicts[3]) == "plugin set no outcome")
        #expect(group(verdicts[4]) == "plugin set an unknown outcome")
        for verdict in verdicts[5...] {
            let count = verdict.failure?.detail.utf8.count ?? 0
            // The buffer and no more, whatever length the plugin claims; a NUL in it becomes U+FFFD.
            #expect((1_000...1_030).contains(count), "\(count)")
        }
        #expect(plugin.notes.calls == [1, 7])
        await plugin.handler.shutdown()
        #expect(plugin.notes.lines("closed").count == 1, "it was closed in order")
        #expect(!isRunning(try #require(plugin.notes.starts.first)))
    }

    @Test(
        "A message that ends the process costs itself one attempt, and its neighbours in the call none",
        arguments: [
            ("segfault", "plugin ended before it answered"), ("abort", "plugin ended before it answered"),
            ("exit0", "plugin ended before it answered"), ("kill", "plugin ended before it answered"),
            ("scribble", "plugin ended before it answered"), ("loop", "plugin gave no answer in time"),
        ]
    )
    func crash(_ fault: String, _ expected: String) async throws {
        let plugin = try FaultyPlugin(timeout: fault == "loop" ? .seconds(1) : .seconds(20))
        let verdicts = try await plugin.together([#"{"n":1}"#, #"{"n":2}"#, fault, #"{"n":3}"#, #"{"n":4}"#])
        #expect(verdicts.enumerated().allSatisfy { $0.offset == 2 || $0.element == .done }, "\(verdicts)")
        #expect(group(verdicts[2]) == expected)
        // Twice: in the call with the others, and alone. What had an outcome before the crash is not repeated.
        #expect(plugin.notes.times(fault) == 2)
        #expect(plugin.notes.times(#""n":1"#) + plugin.notes.times(#""n":2"#) == 2)
        #expect(plugin.notes.times(#""n":3"#) + plugin.notes.times(#""n":4"#) == 2)
        #expect(await plugin.run(["{}"]) == [.done], "it goes on")
        #expect(plugin.log.lines.contains { $0["event"] == "handler.process_ended" })
        await plugin.handler.shutdown()
    }

    @Test("Several bad messages in one call each cost themselves one attempt")
    func manyBad() async throws {
        let plugin = try FaultyPlugin()
        let data = (0..<12).map { $0 % 3 == 1 ? "segfault" : #"{"n":1}"# }
        let verdicts = try await plugin.together(data)
        for (text, verdict) in zip(data, verdicts) {
            #expect(text == "segfault" ? group(verdict) == "plugin ended before it answered" : verdict == .done)
        }
        await plugin.handler.shutdown()
    }

    @Test("A message that failed before is alone in its call, and holds up none that never failed")
    func failedBefore() async throws {
        let plugin = try FaultyPlugin(timeout: .seconds(3))
        async let hanging = plugin.run(["loop"], attempt: 2)
        try await waitUntil { plugin.notes.times("loop") > 0 }
        #expect(await plugin.run(Array(repeating: "{}", count: 50)).allSatisfy { $0 == .done })
        #expect(group(await hanging.first) == "plugin gave no answer in time")
        #expect(plugin.notes.times("loop") == 1, "at once alone")
        await plugin.handler.shutdown()
    }

    @Test("The process of a message that failed before is kept, as are all that calls need at the same time")
    func keptProcesses() async throws {
        let plugin = try FaultyPlugin()
        let gate = plugin.notes.folder.appending(path: "gate").path
        mkfifo(gate, 0o600)
        async let held = plugin.run(["wait"])
        try await waitUntil { plugin.notes.times("wait") > 0 }
        #expect(await plugin.run(["{}"], attempt: 2) == [.done])
        close(open(gate, O_WRONLY))
        #expect(await held == [.done])
        #expect(plugin.notes.starts.count == 2 && plugin.notes.lines("closed").isEmpty, "both wait for more")
        await plugin.handler.shutdown()
        #expect(plugin.notes.lines("closed").count == 2)
    }

    @Test("Rubbish on every descriptor, closed descriptors and forks disturb nothing")
    func descriptors() async throws {
        let plugin = try FaultyPlugin()
        for fault in ["stdout", "garbage", "close", "{}", "fork", "forkreturn", "{}"] {
            #expect(await plugin.run([fault, "{}"]) == [.done, .done], "\(fault)")
        }
        try await waitUntil("its standard output is in the log") {
            plugin.log.lines.contains { $0["line"]?.contains("hello from the plugin") == true }
        }
        let processes = plugin.notes.starts + plugin.notes.lines("children").compactMap { Int32($0) }
        await plugin.handler.shutdown()
        for process in processes { #expect(!isRunning(process), "\(process)") }
    }

    @Test("A plugin that says it can't work blames no message, and counts for the breaker")
    func unavailable() async throws {
        let plugin = try FaultyPlugin()
        let verdicts = await plugin.run(["unavailable"])
        guard case .unavailable = verdicts[0] else {
            Issue.record("\(verdicts)")
            return
        }
        #expect(group(verdicts[0]) == "plugin says it can not work now")
        await plugin.handler.shutdown()
    }

    @Test("Memory is bounded where that is configured, and going over it costs the message that does")
    func memory() async throws {
        let plugin = try FaultyPlugin(memory: 256 << 20)
        let verdicts = await plugin.run(["allocate"]) + (await plugin.run(["{}"]))
        #expect(group(verdicts[0]) == "plugin ended before it answered" && verdicts[1] == .done)
        await plugin.handler.shutdown()
    }

    @Test("A host that is killed from outside blames no message, and is started again")
    func hostKilled() async throws {
        let plugin = try FaultyPlugin()
        // The plugin kills its parent, which it has no business to do.
        let verdicts = await plugin.run(["orphan"])
        guard case .interrupted = verdicts[0] else {
            Issue.record("\(verdicts)")
            return
        }
        #expect(await plugin.run(["{}"]) == [.done])
        await plugin.handler.shutdown()
        for process in plugin.notes.starts { #expect(!isRunning(process), "the plugin has not outlived its host") }
    }

    @Test("A cancelled message is given up at once; the others of its call go on")
    func cancelled() async throws {
        let plugin = try FaultyPlugin()
        let message = UpstreamMessage.sample(category: "a", data: "forkloop")
        let task = Task {
            await HandlerVerdict.of(
                plugin.handler,
                message,
                HandlerContext(handler: "h", deadline: .now + .seconds(600))
            )
        }
        try await waitUntil { !plugin.notes.lines("children").isEmpty }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(await plugin.run(["{}"]) == [.done])
        await plugin.handler.shutdown()
        let processes = plugin.notes.starts + plugin.notes.lines("children").compactMap { Int32($0) }
        for process in processes { #expect(!isRunning(process), "ended with the call: \(process)") }
    }

    @Test("What a plugin starts ends with it, also in a session of its own: at its crash, and at the handler's end")
    func startsSessions() async throws {
        let plugin = try FaultyPlugin()
        func children() -> [Int32] { plugin.notes.lines("children").compactMap { Int32($0) } }
        let verdicts = await plugin.run(["forkaway crash"])
        #expect(group(verdicts[0]) == "plugin ended before it answered")
        // The next call has another process, so the first one has been buried.
        #expect(await plugin.run(["forkaway"]) == [.done])
        try #require(children().count == 2)
        #expect(!isRunning(children()[0]) && isRunning(children()[1]))
        await plugin.handler.shutdown()
        #expect(!isRunning(children()[1]))
    }

    @Test("A plugin that has left its process group is killed when its time is up")
    func leavesItsGroup() async throws {
        let plugin = try FaultyPlugin(timeout: .seconds(1))
        let verdicts = await plugin.run(["regroup loop"], attempt: 2)
        #expect(group(verdicts[0]) == "plugin gave no answer in time")
        for process in plugin.notes.starts { #expect(!isRunning(process)) }
        await plugin.handler.shutdown()
    }

    @Test("A plugin that hangs while it opens holds up no shutdown, and its process ends")
    func hangsAtOpen() async throws {
        let notes = try PluginNotes()
        let plugin = try FaultyPlugin(configuration: "hang \(notes.folder.path)", timeout: .seconds(60))
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        let context = HandlerContext(handler: "h", deadline: .now + .seconds(600))
        let task = Task { await HandlerVerdict.of(plugin.handler, message, context) }
        try await waitUntil { !notes.lines("opening").isEmpty }
        // As the dispatcher does it: it cancels what is left, and then shuts the handler down.
        task.cancel()
        #expect(await task.value == .cancelled)
        let start = ContinuousClock.now
        await plugin.handler.shutdown()
        let time = ContinuousClock.now - start
        #expect(time < .seconds(10), "\(time)")
        let process = try #require(notes.lines("opening").first.flatMap { Int32($0) })
        try await waitUntil { !isRunning(process) }
        #expect(plugin.log.lines.allSatisfy { $0["event"] != "handler.process_ended" }, "we ended it ourselves")
    }

    @Test("20 MiB of messages reach the plugin in calls of at most 16 MiB")
    func large() async throws {
        let plugin = try FaultyPlugin(messages: 40)
        let data = String(repeating: "x", count: 1 << 19)
        #expect(try await plugin.together((0..<40).map { _ in data }).allSatisfy { $0 == .done })
        #expect(plugin.notes.calls.dropFirst().reduce(0, +) == 40 && plugin.notes.calls.allSatisfy { $0 <= 32 })
        await plugin.handler.shutdown()
    }
}
