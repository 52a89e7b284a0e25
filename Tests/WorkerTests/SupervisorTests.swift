import Foundation
import Ingest
import IntegrationSupport
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Telemetry
import Testing
import Vocabulary

@testable import UpstreamConfiguration
@testable import Worker

/// What the service manager and the log hear of a process: systemd's protocol over a real datagram socket.
@Suite("a supervisor", .timeLimit(.minutes(5)))
struct SupervisorTests {
    private let folder = try? TemporaryFolder()
    private let logs = MemoryLogOutput()
    private let start = ContinuousClock.now

    private func socket(_ name: String = "notify") throws -> NotifySocket {
        try NotifySocket(try #require(folder).url.appending(path: name).path)
    }

    private func logger() -> Logger { .lines(label: "test", level: .info, format: .json, output: logs) }

    private func supervisor(
        _ socket: NotifySocket?,
        watchdog: String? = nil,
        _ watch: LoopWatch = LoopWatch(eventLoops: []),
        hindrance: @escaping @Sendable () -> Supervisor.Hindrance = { (nil, 0) }
    ) -> Supervisor {
        var environment = ["NOTIFY_SOCKET": socket?.name ?? ""]
        environment["WATCHDOG_USEC"] = watchdog
        return Supervisor(
            manager: ServiceManager(environment: environment),
            watch: watch,
            status: { "all\nwell" },
            hindrance: hindrance,
            logger: logger()
        )
    }

    private func events(_ name: String) -> [String] { logs.lines.filter { $0.contains("\"\(name)\"") } }

    @Test("READY once the work begins and not before; until then it asks for patience; then the state and the end")
    func life() throws {
        let socket = try socket()
        let supervisor = supervisor(socket)
        supervisor.look(now: start)
        supervisor.look(now: start + .seconds(5))
        #expect(socket.messages == ["EXTEND_TIMEOUT_USEC=60000000", "STATUS=all well", "STATUS=all well"])
        supervisor.look(now: start + .seconds(10))
        #expect(socket.count("EXTEND_TIMEOUT_USEC=60000000") == 2)
        #expect(socket.count("READY=1") == 0)
        supervisor.started()
        supervisor.started()
        #expect(socket.count("READY=1") == 1)
        supervisor.look(now: start + .seconds(30))
        #expect(socket.count("EXTEND_TIMEOUT_USEC=60000000") == 2)
        supervisor.stopping(within: .seconds(40))
        #expect(socket.messages.suffix(3) == ["STOPPING=1", "EXTEND_TIMEOUT_USEC=45000000", "STATUS=shutting down"])
        supervisor.look(now: start + .seconds(60))
        #expect(socket.messages.last == "STATUS=shutting down")
        #expect(events("worker.ready").count == 1)
    }

    @Test("a name with @ is one of the abstract namespace")
    func abstract() throws {
        let socket = try NotifySocket("@upstream-test-\(UInt64.random(in: 0 ... .max))")
        supervisor(socket).started()
        #expect(socket.messages == ["READY=1", "STATUS=all well"])
    }

    @Test(
        "what is no socket's name is none",
        arguments: ["", "notify", "vsock:2:3", "@", "/" + String(repeating: "x", count: 107)]
    )
    func odd(_ name: String) {
        #expect(ServiceManager(environment: ["NOTIFY_SOCKET": name]) == nil)
    }

    @Test("a manager whose socket is gone costs one line of the log, and hears that it is ready once it is back")
    func unreachable() throws {
        var first: NotifySocket? = try socket()
        let name = try #require(first).name
        let supervisor = supervisor(first)
        first = nil
        supervisor.started()
        supervisor.look(now: start)
        supervisor.look(now: start + .seconds(10))
        #expect(events("worker.manager_unreachable").count == 1)
        let second = try NotifySocket(name)
        supervisor.look(now: start + .seconds(11))
        #expect(second.count("READY=1") == 1)
    }

    @Test("the end that a manager could not take, because its queue was full, is told again until it takes it, once")
    func fullQueue() throws {
        let folder = try #require(folder)
        // Read by nobody until it is full.
        let name = folder.url.appending(path: "slow").path
        let slow = try NotifySocket(name, isRead: false)
        let supervisor = supervisor(slow)
        supervisor.started()
        let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": name]))
        while manager.tell([.status("filling")]) {}
        supervisor.stopping(within: .seconds(40))
        supervisor.look(now: start + .seconds(1))
        #expect(slow.count("STOPPING=1") == 0 && slow.count("READY=1") == 1)
        for second in 2...5 { supervisor.look(now: start + .seconds(second)) }
        #expect(slow.messages.suffix(3) == ["STOPPING=1", "EXTEND_TIMEOUT_USEC=45000000", "STATUS=shutting down"])
        #expect(slow.count("STOPPING=1") == 1 && events("worker.manager_unreachable").count == 1)
    }

    @Test("a reload is told from its beginning to its end, but by nobody who is not ready")
    func reload() throws {
        let socket = try socket()
        let supervisor = supervisor(socket)
        var runs = 0
        supervisor.reload { runs += 1 }
        #expect(socket.messages.isEmpty && runs == 1)
        supervisor.started()
        let before = ServiceManager.monotonicTime
        supervisor.reload {
            runs += 1
            #expect(socket.count("RELOADING=1") == 1)
            #expect(socket.count("READY=1") == 1)
        }
        #expect(socket.count("READY=1") == 2 && runs == 2)
        let told = try #require(socket.messages.first { $0.hasPrefix("MONOTONIC_USEC=") })
        let time = try #require(UInt64(told.split(separator: "=")[1]))
        #expect(time >= before && time <= ServiceManager.monotonicTime)
        supervisor.stopping(within: .seconds(1))
        supervisor.reload { runs += 1 }
        #expect(socket.count("READY=1") == 2 && runs == 3)
    }

    @Test("the watchdog is fed while the loops move, and not while one hangs: an event loop that is blocked")
    func hangingEventLoop() async throws {
        let socket = try socket()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let loops = group.makeIterator().map { $0 }
        let watch = LoopWatch(eventLoops: loops)
        let supervisor = supervisor(socket, watchdog: "60000000", watch)
        func look(after seconds: Int) async throws {
            supervisor.look(now: start + .seconds(seconds))
            // Time is made up here: the other loop answers within none of it.
            try await loops[0].submit {}.get()
        }
        try await look(after: 0)
        #expect(socket.count("WATCHDOG=1") == 1)
        let (block, unblock) = (DispatchGate(), DispatchGate())
        loops[1].execute {
            block.open()
            unblock.wait()
        }
        block.wait()
        try await look(after: 1)
        // Longer than any loop takes, and not as long as the watchdog waits.
        try await look(after: 22)
        #expect(events("worker.loop_stuck").map { $0.contains("\"loop\":\"event-loop-1\"") } == [true])
        let fed = socket.count("WATCHDOG=1")
        for second in stride(from: 40, through: 200, by: 20) { try await look(after: second) }
        #expect(socket.count("WATCHDOG=1") == fed, "the watchdog is fed although a loop hangs")
        unblock.open()
        try await waitUntil("the watchdog is fed again") {
            try await look(after: 300)
            return socket.count("WATCHDOG=1") > fed
        }
        #expect(events("worker.loop_moving").count == 1)
        try await group.shutdownGracefully()
    }

    @Test(
        "a loop that waits, for work or for the database, never hangs, however long; one that works for too long does"
    )
    func progress() throws {
        let socket = try socket()
        let writer = LoopProgress("writer-0")
        let supervisor = supervisor(socket, watchdog: "60000000", LoopWatch(eventLoops: [], writers: [writer]))
        for phase in [LoopProgress.Phase.idle, .awaiting] {
            writer.enter(phase, now: start)
            let fed = socket.count("WATCHDOG=1")
            supervisor.look(now: start + .seconds(86_400 * Int(phase.rawValue + 1)))
            #expect(socket.count("WATCHDOG=1") == fed + 1, "\(phase)")
        }
        writer.enter(.working, now: start + .seconds(200_000))
        let fed = socket.count("WATCHDOG=1")
        supervisor.look(now: start + .seconds(200_019))
        #expect(socket.count("WATCHDOG=1") == fed + 1)
        supervisor.look(now: start + .seconds(200_040))
        #expect(socket.count("WATCHDOG=1") == fed + 1)
    }

    @Test("a loop that could not move while the whole process was stopped does not hang; one that then goes on so does")
    func pause() throws {
        let socket = try socket()
        let writer = LoopProgress("writer-0")
        let supervisor = supervisor(socket, watchdog: "60000000", LoopWatch(eventLoops: [], writers: [writer]))
        writer.enter(.working, now: start)
        supervisor.look(now: start + .seconds(3600), isAfterPause: true)
        #expect(socket.count("WATCHDOG=1") == 1 && events("worker.loop_stuck").isEmpty)
        supervisor.look(now: start + .seconds(3700))
        #expect(socket.count("WATCHDOG=1") == 1 && events("worker.loop_stuck").count == 1)
        supervisor.look(now: start + .seconds(7200), isAfterPause: true)
        #expect(socket.count("WATCHDOG=1") == 2)
        #expect(events("worker.loop_stuck").count == 1 && events("worker.loop_moving").isEmpty)
        #expect(Supervisor.pause(.milliseconds(20)) == .seconds(5) && Supervisor.pause(.seconds(10)) == .seconds(30))
    }

    @Test("the watchdog is fed although every thread of the tasks is blocked, as by handlers that wait without await")
    func blockedPool() throws {
        let socket = try socket()
        let supervisor = supervisor(socket, watchdog: "80000")
        // This function blocks one of the threads itself.
        func wait(_ what: Comment, until condition: () -> Bool) throws {
            let deadline = ContinuousClock.now + .seconds(20)
            while !condition() {
                try #require(ContinuousClock.now < deadline, what)
                Thread.sleep(forTimeInterval: 0.005)
            }
        }
        let running = Task { await supervisor.run() }
        defer { running.cancel() }
        try wait("it is fed") { socket.count("WATCHDOG=1") > 0 }
        let gate = DispatchGate()
        let threads = ProcessInfo.processInfo.activeProcessorCount
        for _ in 0..<threads * 2 {
            Task { gate.wait() }
        }
        defer { for _ in 0..<threads * 2 { gate.open() } }
        try wait("they are blocked") { gate.waiting >= threads - 1 }
        let fed = socket.count("WATCHDOG=1")
        try wait("it is fed on") { socket.count("WATCHDOG=1") > fed + 10 }
    }

    @Test("messages that wait although every writer has been idle for as long: none was woken, and that is a hang")
    func queueLeftAlone() {
        let queue = IngestQueue(writers: 1)
        let writer = LoopProgress("writer-0")
        let watch = LoopWatch(eventLoops: [], queue: queue, writers: [writer])
        let later = start + .seconds(1000)
        #expect(watch.stuck(limit: .seconds(20), now: later).isEmpty)
        queue.submit([.init(kind: .upstream, bytes: [1], stanza: .init(start: 0, count: 1))], from: NoSink())
        #expect(watch.stuck(limit: .seconds(20), now: later) == ["queue"])
        // After a long outage the oldest message is old, and its writer has only just committed the batch before.
        writer.enter(.idle, now: later - .seconds(1))
        #expect(watch.stuck(limit: .seconds(20), now: later).isEmpty)
        writer.enter(.awaiting, now: start)
        #expect(watch.stuck(limit: .seconds(20), now: later).isEmpty)
    }

    @Test("a watchdog for another process is not ours")
    func foreignWatchdog() throws {
        let socket = try socket()
        let environment = ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "60000000"]
        #expect(ServiceManager(environment: environment)?.watchdog == .seconds(60))
        func watchdog(_ process: String) -> Duration? {
            ServiceManager(environment: environment.merging(["WATCHDOG_PID": process]) { $1 })?.watchdog
        }
        #expect(watchdog(String(getpid())) == .seconds(60))
        #expect(watchdog("1") == nil)
        func watchdog(microseconds: String) -> Duration? {
            ServiceManager(environment: ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": microseconds])?.watchdog
        }
        // Over an hour, which 32 bits can't hold; and `infinity`.
        #expect(watchdog(microseconds: "5400000000") == .seconds(5400))
        #expect(watchdog(microseconds: "18446744073709551615") == .seconds(30 * 86_400))
        for odd in ["0", "-1", "", "18446744073709551616"] { #expect(watchdog(microseconds: odd) == nil) }
    }

    @Test("while the database is away there is one line a minute, with how long, how many wait, and why")
    func outage() throws {
        let hindrance = Mutex<Supervisor.Hindrance>((nil, 0))
        let supervisor = supervisor(nil, hindrance: { hindrance.withLock { $0 } })
        func lines() -> [String] { events("database.unavailable") }
        for second in 0...120 { supervisor.look(now: start + .seconds(second)) }
        #expect(lines().isEmpty)
        hindrance.withLock { $0 = ("it is down", 7) }
        for second in 121...360 { supervisor.look(now: start + .seconds(second)) }
        #expect(lines().count == 3)
        let objects = try lines().map { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
        #expect(objects.map { $0?["duration_seconds"] as? Double } == [60, 120, 180])
        #expect(objects.allSatisfy { $0?["count"] as? Int == 7 && $0?["error"] as? String == "it is down" })
        hindrance.withLock { $0 = (nil, 0) }
        supervisor.look(now: start + .seconds(361))
        hindrance.withLock { $0 = ("again", 0) }
        for second in 362...420 { supervisor.look(now: start + .seconds(second)) }
        #expect(lines().count == 3, "an outage of under a minute is told by whoever meets it")
    }

    @Test(
        "what a worker's own supervisor logs of an outage: the database's state, or a standby's, and what is in flight"
    )
    func outageOfAWorker() throws {
        let yaml = "database: {url: 'host=/nowhere dbname=x'}\n"
        let configuration = try ConfigurationLoader(environment: [:])
            .read(yaml: yaml, path: "c", needsSenders: false, parts: []).configuration
        // Nobody runs its services, so that the monitor stays as it is before the first check.
        let parts = try WorkerParts(configuration, own: [], roles: [.receive], version: "test", logger: logger())
        defer { parts.group.shutdownGracefully { _ in } }
        let (metrics, commits) = (parts.metrics, parts.commits)
        let supervisor = parts.supervisor(LoopWatch(eventLoops: []), nil)
        metrics.messages.received(upstream: 2, malformed: 1)
        for second in [0, 60] { supervisor.look(now: start + .seconds(second)) }
        #expect(events("database.unavailable").count == 1)
        #expect(events("database.unavailable").last?.contains(#""count":3,"error":"not checked yet""#) == true)
        commits.standbyWaitBegan()
        supervisor.look(now: start + .seconds(120))
        let standby = try #require(commits.reason)
        #expect(events("database.unavailable").last?.contains(standby) == true, "\(events("database.unavailable"))")
    }
}

/// Nobody's connection.
private final class NoSink: AckSink {
    func settled(_ copies: SettledCopies) {}
}

/// Lets a thread wait until another one opens it.
private final class DispatchGate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let begun = Mutex(0)
    /// How many have begun to wait.
    var waiting: Int { begun.withLock { $0 } }
    func open() { semaphore.signal() }
    func wait() {
        begun.withLock { $0 += 1 }
        semaphore.wait()
    }
}
