import CCSEmulator
import Foundation
import IntegrationSupport
import LocalDatabase
import Testing
import Worker

extension Integration {
    /// The way down while the database does not answer (G7): nothing waits for it in vain, and streams are closed in order.
    @Suite struct ShutdownTests {
        /// Ends a worker and expects that it ends by itself, in order and soon.
        private func expectOrderlyEnd(_ worker: ChildWorker) async throws {
            let start = ContinuousClock.now
            worker.send(SIGTERM)
            #expect(try await worker.exitCode() == 0)
            let time = ContinuousClock.now - start
            // Two seconds, and what a busy machine adds; it took 15 to 43 s.
            #expect(time < .seconds(6), "\(time)")
            #expect(try worker.events("worker.stopped").count == 1)
            #expect(try worker.events("worker.grace_expired").isEmpty)
            try expectNoNoise(worker)
        }

        /// Nothing that a library says in its own words is on stderr, and no line that isn't ours.
        private func expectNoNoise(_ worker: ChildWorker) throws {
            let lines = try worker.logText().split(separator: "\n")
            for line in lines {
                #expect(!line.contains("CancellationError") && !line.contains("Already closed"), "\(line)")
                #expect(!line.contains(#""event":"library""#), "\(line)")
            }
        }

        @Test(
            "an idle worker ends by itself at SIGTERM though the database has never answered",
            arguments: Silence.allCases
        )
        func neverAnswered(_ silence: Silence) async throws {
            let listener = try SilentListener(silence)
            try await Stage.run { stage in
                let url = "postgresql://nobody@127.0.0.1:\(listener.port)/none?sslmode=disable"
                let handlers = "  - {name: audit, categories: [\"*\"], log: {}}\n"
                let options = WorkerOptions(database: url, handlers: handlers)
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await worker.waitForEvent("admin.listening")
                try await waitUntil("the worker connects") { listener.isAsked }
                try await expectOrderlyEnd(worker)
                #expect(await stage.emulator.tally().connections == 0)
            }
        }

        @Test(
            "an idle worker ends by itself at SIGTERM though the database has stopped answering: all acked, streams closed"
        )
        func stoppedAnswering() async throws {
            let count = 200
            try await Stage.runOnOwnServer {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
            } _: { stage, cluster in
                let handlers = "  - {name: audit, categories: [\"*\"], log: {}}\n"
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions(handlers: handlers)), in: stage.folder)
                try await stage.waitUntilComplete()
                try await stage.database.waitUntilHandled(count)
                let freeze = try Freeze(cluster)
                defer { freeze.end() }
                try await expectOrderlyEnd(worker)
                try await stage.wait(for: "the connections' end") { $0.connections.isEmpty }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.brokenStreams == 0 && tally.acked == count, "\(tally.summary)")
            }
        }

        @Test(
            "the grace runs out with messages that can't be committed: goodbyes are said first, nothing is acked, exit 75"
        )
        func goodbyes() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 50)
                $0.load.connections = 2
            } _: { stage in
                try await stage.database.withLockedLedger {
                    let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions(grace: "6s")), in: stage.folder)
                    try await waitUntil("messages are in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 50
                    }
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 75)
                    #expect(try worker.events("worker.giving_up").count == 1)
                    #expect(try worker.events("worker.grace_expired").count == 1)
                    try expectNoNoise(worker)
                }
                try await stage.wait(for: "the connections' end") { $0.connections.isEmpty }
                let tally = await stage.emulator.tally()
                #expect(tally.acked == 0 && tally.brokenStreams == 0 && tally.streamErrors == 0, "\(tally.summary)")
                await stage.emulator.stop()
                let goodbyes = try stage.transcript().split(separator: "\n").count {
                    $0.contains(#""direction":"in""#) && $0.contains("stream:stream>")
                }
                #expect(goodbyes == 2)
            }
        }

        @Test(
            "/readyz says so while messages wait for a database that has stopped, and is ready again after it",
            .timeLimit(.minutes(10))
        )
        func readiness() async throws {
            try await Stage.runOnOwnServer { stage, cluster in
                try await stage.withWorker { worker in
                    func report() -> String { worker.runtime.readiness.report().lines.joined(separator: "\n") }
                    try await waitUntil("ready") { worker.runtime.readiness.report().isReady }
                    let freeze = try Freeze(cluster)
                    defer { freeze.end() }
                    try await stage.send(data: ["1"])
                    try await waitUntil("the waiting message shows") {
                        report().contains("[-] commits failed: messages have been waiting to be committed for ")
                    }
                    try await waitUntil("the silent database shows") {
                        report().contains("[-] database failed: the database has not answered for ")
                    }
                    freeze.end()
                    try await stage.wait(for: "the ack") { $0.tally.acked == 1 }
                    try await waitUntil("ready again") { worker.runtime.readiness.report().isReady }
                }
            }
        }

        @Test("stderr holds nothing but our own lines: at SIGTERM, and where the schema can't be used")
        func noNoise() async throws {
            try await Stage.run { stage in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await stage.wait(for: "two streams") { $0.tally.bound == 2 }
                _ = try await worker.scrape()
                try await expectOrderlyEnd(worker)
                // Each line is one of ours, as an object.
                for line in try worker.logText().split(separator: "\n") { #expect(line.hasPrefix("{"), "\(line)") }
            }
            try await Stage.run { stage in
                try await stage.database.editFirstMigration()
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                #expect(try await worker.exitCode() == 78)
                try expectNoNoise(worker)
                let plain = try worker.logText().split(separator: "\n").filter { !$0.hasPrefix("{") }
                #expect(plain.count == 1 && plain[0].contains("never edited"), "\(plain)")
            }
        }
    }
}

/// How a database does not answer.
enum Silence: CaseIterable {
    /// It takes connections and says nothing.
    case accepts
    /// Not even TCP's first packet is answered.
    case drops
}

/// A TCP port on loopback that never says anything.
final class SilentListener: @unchecked Sendable {
    let port: Int
    // Used by one test alone.
    private let silence: Silence
    private let listener: Int32
    private var fillers: [Int32] = []
    /// Others' sockets: the system's table of them is longer than a page, as on a busy machine.
    private var neighbours: [Int32] = []

    init(_ silence: Silence) throws {
        self.silence = silence
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        var address = SilentListener.loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let size = length
        let name = listener
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(name, $0, size) == 0 && listen(name, silence == .accepts ? 16 : 0) == 0
                    && getsockname(name, $0, &length) == 0
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        guard isBound else { throw WaitedTooLong(description: "no port on loopback") }
        guard silence == .drops else { return }
        fill()
        neighbours = (0..<128).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            listen(descriptor, 1)
            return descriptor
        }
    }

    deinit { for descriptor in fillers + neighbours + [listener] { close(descriptor) } }

    private static func loopback(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    /// Fills the line of connections that wait to be accepted; the system drops what comes then.
    private func fill() {
        while true {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            var address = SilentListener.loopback(port)
            withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    _ = connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            if poll(&poller, 1, 500) == 0 {
                close(descriptor)
                return
            }
            fillers.append(descriptor)
        }
    }

    /// An address of loopback as the system's table of sockets writes it.
    private static func name(_ port: Int) -> String { "0100007F:" + String(format: "%04X", port) }

    private static func localPort(_ descriptor: Int32) -> Int {
        var address = loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isKnown = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
        }
        return isKnown ? Int(UInt16(bigEndian: address.sin_port)) : 0
    }

    /// Whether somebody has tried to connect.
    var isAsked: Bool {
        switch silence {
        case .accepts:
            let descriptor = accept(listener, nil, nil)
            if descriptor >= 0 { fillers.append(descriptor) }
            return descriptor >= 0
        case .drops:
            // A socket that isn't ours has that peer, whether or not its system believes to be connected.
            let table = (try? readSystemTable("/proc/net/tcp")) ?? ""
            let peer = SilentListener.name(port)
            let own = Set(fillers.map { SilentListener.name(SilentListener.localPort($0)) })
            return table.split(separator: "\n").contains { line in
                let fields = line.split(separator: " ").prefix(3).map(String.init)
                return fields.count == 3 && fields[2] == peer && !own.contains(fields[1])
            }
        }
    }
}

/// A PostgreSQL server whose processes don't run, until the end.
final class Freeze: @unchecked Sendable {
    // Used by one test alone.
    private var stopped: [Int32] = []

    init(_ cluster: LocalCluster) throws {
        let file = cluster.folder.appending(path: "data/postmaster.pid")
        let text = try String(contentsOf: file, encoding: .utf8)
        let first = try #require(text.split(separator: "\n").first.flatMap { Int32($0) })
        // The parent first, so that no more come.
        stop(first)
        for name in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
            guard let id = Int32(name), let status = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8)
            else { continue }
            if status.contains("PPid:\t\(first)\n") { stop(id) }
        }
    }

    private func stop(_ id: Int32) {
        kill(id, SIGSTOP)
        stopped.append(id)
    }

    /// Lets the processes run again.
    func end() {
        for id in stopped { kill(id, SIGCONT) }
        stopped = []
    }

    deinit { end() }
}
