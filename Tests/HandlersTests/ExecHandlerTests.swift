import Dispatcher
import Foundation
import IntegrationSupport
import Logging
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// A Python program that answers message after message; `body` runs for each, with the object in `m`.
private func program(_ body: String) -> [String] {
    let script = """
        import sys, json, os, time
        def say(text):
            sys.stdout.write(text + "\\n"); sys.stdout.flush()
        n = 0
        for line in sys.stdin:
            m = json.loads(line); n += 1
            \(body)
        """
    return ["/usr/bin/env", "python3", "-c", script]
}

@Suite(.timeLimit(.minutes(10))) struct ExecHandlerTests {
    private func run(
        _ command: [String],
        mode: ExecHandler.Mode = .stream,
        messages: [UpstreamMessage] = [.sample(category: "a", data: #"{"n":1}"#)],
        timeout: Duration = .seconds(30),
        environment: [String] = ExecHandler.passedEnvironment,
        logger: Logger = .quiet
    ) async -> [HandlerVerdict] {
        let handler = ExecHandler(name: "h", command: command, mode: mode, environment: environment, logger: logger)
        var verdicts: [HandlerVerdict] = []
        for message in messages {
            let context = HandlerContext(handler: "h", deadline: .now + timeout)
            verdicts.append(await .of(handler, message, context))
        }
        await handler.shutdown()
        return verdicts
    }

    private func group(_ verdict: HandlerVerdict?) -> String {
        verdict?.failure?.group ?? "\(String(describing: verdict))"
    }

    @Test("One process answers message after message, in order")
    func answersInOrderFromOneProcess() async {
        let body = """
            assert set(m) == {"message_key","message_id","sender_id","category","registration_token","device_key","data","extra","message_type","received_at","attempt","replay_id"}, m
            say({1: '{"outcome":"done"}', 2: '{"outcome":"retry","after":"90s","reason":"busy"}', 3: '{"outcome":"reject","reason":"no"}', 4: '{"outcome":"done","message_key":"%s"}' % m["message_key"]}[n])
            """.replacingOccurrences(of: "\n", with: "\n    ")
        let messages = (0..<4).map { _ in UpstreamMessage.sample(category: "a", data: "{\n\"n\":\r\n1}") }
        let verdicts = await run(program(body), messages: messages)
        #expect(
            verdicts == [
                .done, .retry(after: .seconds(90), HandlerFailure("busy")), .reject(HandlerFailure("no")), .done,
            ]
        )
    }

    @Test(
        "A bad answer affects only its own message",
        arguments: [
            ("say('rubbish')", "exec answer out of shape"), ("say('[]')", "exec answer out of shape"),
            (#"say('{"outcome":"maybe"}')"#, "exec answer out of shape"),
            (#"say('{"outcome":"retry","after":"soon"}')"#, "exec answer out of shape"),
            (
                #"say('{"outcome":"done","message_key":"00000000-0000-0000-0000-000000000001"}')"#,
                "exec answer out of shape"
            ),
            (#"say('{"outcome":"done"}\n{"outcome":"done"}')"#, "exec program wrote more than one line for a message"),
            ("say('x' * 200000)", "exec program answered a line over"),
            ("os._exit(3)", "exec program ended before it answered"),
            ("os.kill(os.getpid(), 9)", "exec program ended before it answered"),
            ("os.close(1); time.sleep(60)", "exec program ended before it answered"),
        ]
    )
    func aBadAnswerCostsItsOwnMessageOnly(_ body: String, _ expected: String) async {
        // The second message meets a new process, which answers well the second time it is asked in this folder.
        let flag = FileManager.default.temporaryDirectory.appendingPathComponent("upstream-\(UUID())").path
        let script = """
            if os.path.exists('\(flag)'):
                    say('{"outcome":"done"}')
                else:
                    open('\(flag)', 'w'); \(body)
            """
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        let verdicts = await run(program(script), messages: [message, message])
        #expect(group(verdicts.first).hasPrefix(expected), "\(verdicts)")
        #expect(verdicts.last == .done, "\(verdicts)")
        try? FileManager.default.removeItem(atPath: flag)
    }

    @Test("A program that hangs is killed together with its children")
    func aHangIsKilledWithItsChildren() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("upstream-\(UUID())").path
        let script = "c = os.fork(); open('\(file)','a').write('%d\\n' % os.getpid()); time.sleep(600)"
        let verdicts = await run(program(script), timeout: .seconds(12))
        #expect(group(verdicts.first) == "exec program gave no answer in time and was killed")
        let pids = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").compactMap { Int32($0) }
        #expect(!pids.isEmpty)
        for pid in pids { #expect(await isGone(pid), "process \(pid) is left") }
        try? FileManager.default.removeItem(atPath: file)
    }

    @Test("A flood of error output is cut off and blocks nothing")
    func aFloodOfErrorsIsCutAndDoesNotBlock() async {
        let log = RecordedLog()
        let script = """
            sys.stderr.write(('e' * 5000 + chr(10)) * 2000); sys.stderr.flush(); say('{"outcome":"done"}')
            """
        let verdicts = await run(program(script), logger: log.logger)
        #expect(verdicts == [.done])
        let lines = log.lines.compactMap { $0["line"] }
        #expect(!lines.isEmpty)
        #expect(lines.count < 2000)
        #expect(lines.allSatisfy { $0.utf8.count <= ExecOutputLog.lineLimit })
    }

    @Test("A program that never answers is restarted with back-off")
    func aProgramThatNeverAnswersIsStartedWithBackOff() async {
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        let verdicts = await run(program("os._exit(1)"), messages: Array(repeating: message, count: 4))
        guard case .unavailable(let wait, _) = verdicts.last, let wait else {
            Issue.record("not held back: \(verdicts)")
            return
        }
        #expect(wait > .zero && wait <= RestartBackoff.waits.maximum)
    }

    @Test(
        "A program that ends, takes nothing more or answers again after an answer costs the next message nothing",
        arguments: [
            #"say('{"outcome":"done"}'); sys.exit(0)"#, #"say('{"outcome":"done"}'); os._exit(3)"#,
            #"os.close(0); say('{"outcome":"done"}'); time.sleep(60)"#,
            #"say('{"outcome":"done"}'); time.sleep(0.3); say('{"outcome":"reject"}'); time.sleep(60)"#,
        ]
    )
    func aProgramThatEndsAfterAnAnswerCostsNothing(_ body: String) async {
        // As much as a pipe holds, and far less.
        let data = ["{}", "\"" + String(repeating: "x", count: 60_000) + "\""]
        let messages = (0..<6).map { UpstreamMessage.sample(category: "a", data: data[$0 % 2]) }
        let verdicts = await run(program(body), messages: messages)
        #expect(verdicts == messages.map { _ in .done })
    }

    @Test("A program that ends before it reads anything is down: no message is charged")
    func aProgramThatReadsNothingIsDown() async {
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        for verdict in await run(["/bin/true"], messages: [message, message, message]) {
            guard case .unavailable = verdict else {
                Issue.record("charged: \(verdict)")
                return
            }
        }
    }

    @Test("A missing program counts no attempt against the message")
    func aMissingProgramIsNotTheMessagesFault() async {
        for mode in [ExecHandler.Mode.stream, .once] {
            let verdicts = await run(["/nonexistent/program"], mode: mode)
            #expect(group(verdicts.first) == "exec program can not be started", "\(verdicts)")
            guard case .unavailable = verdicts.first else {
                Issue.record("charged: \(verdicts)")
                return
            }
        }
    }

    @Test("A program that has answered before is restarted at once after a message kills it")
    func aProgramThatHasAnsweredIsStartedAgainAtOnceAfterMessagesThatKillIt() async {
        let good = UpstreamMessage.sample(category: "a", data: #"{"n":0}"#)
        let bad = UpstreamMessage.sample(category: "a", data: #"{"n":1}"#)
        let body = "os._exit(1) if m['data']['n'] else say('{\"outcome\":\"done\"}')"
        let verdicts = await run(program(body), messages: [good] + Array(repeating: bad, count: 6) + [good])
        #expect(verdicts.first == .done && verdicts.last == .done)
        for verdict in verdicts.dropFirst().dropLast() {
            guard case .retry(nil, _) = verdict else {
                Issue.record("not the message's own failure: \(verdict)")
                return
            }
        }
    }

    /// A descendant in a session of its own is beyond our kill, and holds the program's three streams.
    @Test(
        "A descendant that keeps the output open delays nothing",
        arguments: [
            (#"say('{"outcome":"done"}'); sys.exit(0)"#, "done"),
            ("os._exit(3)", "exec program ended before it answered"),
            (#"os.write(1, b'{"outcome":"do'); os._exit(0)"#, "exec program ended before it answered"),
        ]
    )
    func aDescendantThatKeepsTheOutputOpenDelaysNothing(_ end: String, _ expected: String) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("upstream-\(UUID())").path
        let body = """
            p = os.fork()
                if p == 0:
                    os.setsid(); open('\(file)', 'w').write(str(os.getpid())); time.sleep(600)
                while not os.path.exists('\(file)') or not open('\(file)').read(): time.sleep(0.01)
                \(end)
            """
        let verdicts = await run(program(body), timeout: .seconds(60))
        if let pid = Int32((try? String(contentsOfFile: file, encoding: .utf8)) ?? "") { kill(pid, SIGKILL) }
        try? FileManager.default.removeItem(atPath: file)
        for verdict in verdicts {
            #expect(expected == "done" ? verdict == .done : group(verdict) == expected, "\(verdicts)")
        }
    }

    @Test("In once mode, a descendant that keeps the streams open delays nothing")
    func onceADescendantThatKeepsTheStreamsOpenDelaysNothing() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("upstream-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        let wait = "while [ ! -e \(file) ]; do sleep 0.01; done"
        let script = "setsid sh -c 'touch \(file); exec sleep 600' & echo $! >&2; \(wait); exit 0"
        let log = RecordedLog()
        let before = try descriptors()
        #expect(await run(["/bin/sh", "-c", script], mode: .once, logger: log.logger) == [.done])
        // Nor does it keep our ends of its streams open.
        try await waitUntil { try descriptors() <= before }
        for line in log.lines { if let pid = line["line"].flatMap(Int32.init) { kill(pid, SIGKILL) } }
    }

    private func descriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name))?.hasPrefix("pipe:")
                == true
        }.count
    }

    @Test("The program starts with default signal handlers")
    func signalsStandAtTheirDefaultsInTheProgram() async {
        // SIGPIPE is ignored in ours. Python ignores it and SIGXFSZ by itself, and glibc keeps signal 32 to itself.
        let body = """
            status = dict(l.split(":\\t") for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
                blocked, ignored = int(status["SigBlk"], 16), int(status["SigIgn"], 16) & ~0x81001000
                say(json.dumps({"outcome": "done" if (blocked, ignored) == (0, 0) else "reject", "reason": "%x %x" % (blocked, ignored)}))
            """
        let verdicts = await run(program(body))
        #expect(verdicts == [.done], "\(verdicts)")
    }

    @Test("The environment holds only the allowed names")
    func theEnvironmentHoldsTheAllowedNamesOnly() async {
        setenv("UPSTREAM_TEST_SECRET", "s3cret", 1)
        let command = ["/bin/sh", "-c", #"[ -z "$UPSTREAM_TEST_SECRET" ] && [ -n "$PATH" ]"#]
        #expect(await run(command, mode: .once) == [.done])
        let passed = await run(command, mode: .once, environment: ["PATH", "UPSTREAM_TEST_SECRET"])
        #expect(group(passed.first) == "exec exit 1")
    }

    @Test("The example of an exec handler works as documented")
    func theExampleWorks() async {
        let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let script = package.appendingPathComponent("Examples/exec/orders.py").path
        let messages = [#"{"item":"tea"}"#, "[]", nil].map { UpstreamMessage.sample(category: "a", data: $0) }
        let rejected = HandlerVerdict.reject(HandlerFailure("an order needs an item"))
        let verdicts = await run(["/usr/bin/env", "python3", script], messages: messages)
        #expect(verdicts == [.done, rejected, rejected])
    }

    @Test("The program inherits no descriptors")
    func descriptorsAreNotInherited() async {
        let body = """
            say(json.dumps({"outcome": "done" if set(os.listdir("/proc/self/fd")) <= {"0", "1", "2", "3"} else "reject", "reason": " ".join(os.listdir("/proc/self/fd"))}))
            """
        #expect(await run(program(body)) == [.done])
    }

    @Test(
        "In once mode the exit status decides the outcome",
        arguments: [
            ("exit 0", "done"), ("exit 75", "exec exit 75 asked for a retry"),
            ("exit 65", "exec exit 65 rejected the message"),
            ("exit 1", "exec exit 1"), ("kill -SEGV $$", "exec signal 11"),
            ("cat >/dev/null; yes | head -c 1000000", "done"),
            ("read x; case \"$x\" in *message_key*) exit 0;; *) exit 65;; esac", "done"),
        ]
    )
    func onceReadsTheExitStatus(_ script: String, _ expected: String) async {
        let verdict = await run(["/bin/sh", "-c", script], mode: .once).first
        if expected == "done" {
            #expect(verdict == .done)
        } else {
            // These are no words of the program's own: a log may quote them.
            #expect(group(verdict) == expected && verdict?.failure?.logText == expected)
        }
        if expected.contains("rejected") {
            guard case .reject = verdict else {
                Issue.record("not rejected: \(String(describing: verdict))")
                return
            }
        }
    }

    @Test("In once mode a program that hangs is killed")
    func onceKillsWhatHangs() async {
        let verdict = await run(["/bin/sleep", "600"], mode: .once, timeout: .milliseconds(300)).first
        #expect(group(verdict) == "exec program gave no answer in time and was killed")
    }

    @Test("Cancelling kills the program and counts no attempt")
    func cancellingKillsAndIsNotCharged() async {
        for mode in [ExecHandler.Mode.stream, .once] {
            let handler = ExecHandler(
                name: "h",
                command: ["/bin/sleep", "600"],
                mode: mode,
                logger: .quiet
            )
            let task = Task {
                await HandlerVerdict.of(handler, .sample(category: "a", data: "{}"), HandlerContext(handler: "h"))
            }
            task.cancel()
            #expect(await task.value == .cancelled)
            await handler.shutdown()
        }
    }

    @Test("No zombie process is left")
    func noZombieIsLeft() async {
        let verdicts = await run(
            ["/bin/sh", "-c", "exit 0"],
            mode: .once,
            messages: Array(repeating: .sample(category: "a", data: nil), count: 20)
        )
        #expect(verdicts.allSatisfy { $0 == .done })
        // Each end was reported after the process had been reaped.
        let children = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        let zombies = children.filter { pid in
            guard Int(pid) != nil, let stat = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else {
                return false
            }
            return stat.contains("(sh) Z \(ProcessInfo.processInfo.processIdentifier) ")
        }
        #expect(zombies.isEmpty)
    }

    /// Whether a process ends within a bounded time.
    private func isGone(_ pid: Int32) async -> Bool {
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end {
            let state = (try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)) ?? ""
            // A grandchild's zombie waits for init, which a container may not have.
            if state.isEmpty || state.contains(") Z ") { return true }
            await Task.yield()
        }
        return false
    }
}
