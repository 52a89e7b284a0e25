import Foundation
import IntegrationSupport
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Telemetry
import Testing

@testable import UpstreamConfiguration
@testable import Worker

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

struct AdminServerTests {
    /// Runs a server on a free port and hands the port to `body`; ends both in order.
    private func serving(
        _ readiness: Readiness,
        _ metrics: Metrics = Metrics(senders: ["s"], categories: [], handlers: [], version: "1"),
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let (ports, port) = AsyncStream<Int>.makeStream()
        let made = AdminServer(
            .tcp(host: "127.0.0.1", port: 0),
            metrics: metrics,
            readiness: readiness,
            logger: Logger.lines(label: "admin", level: .error, format: .json, output: MemoryLogOutput()),
            onListening: { port.yield($0) }
        )
        let server = try #require(made)
        let group = ServiceGroup(
            configuration: .init(
                services: [.init(service: server)],
                logger: .quiet
            )
        )
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            for await port in ports {
                try await body(port)
                break
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private static func ask(
        _ port: Int,
        _ path: String,
        _ method: String = "GET"
    ) async throws -> (Int, String, HTTPURLResponse) {
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)\(path)")))
        request.httpMethod = method
        request.timeoutInterval = 20
        let (data, response) = try await URLSession.shared.data(for: request)
        let http = try #require(response as? HTTPURLResponse)
        return (http.statusCode, String(decoding: data, as: UTF8.self), http)
    }

    @Test("the endpoints answer", .timeLimit(.minutes(5)))
    func endpoints() async throws {
        let isUp = Mutex(false)
        let readiness = Readiness([
            ReadinessCheck(name: "database") { isUp.withLock { $0 } ? .ready : .notReady("no connection") },
            ReadinessCheck(name: "sender-1") { .ready },
        ])
        try await serving(readiness) { port in
            #expect(try await Self.ask(port, "/livez").0 == 200)
            let failing = try await Self.ask(port, "/readyz")
            #expect(failing.0 == 503)
            #expect(failing.1 == "[-] database failed: no connection\n[+] sender-1 ok\n[+] draining ok\nnot ready\n")
            isUp.withLock { $0 = true }
            let ready = try await Self.ask(port, "/readyz")
            #expect(ready.0 == 200 && ready.1 == "ok\n")
            let verbose = try await Self.ask(port, "/readyz?verbose")
            #expect(verbose.1 == "[+] database ok\n[+] sender-1 ok\n[+] draining ok\nready\n")
            #expect(
                Readiness([ReadinessCheck(name: "clock") { .remark("a word") }]).report()
                    == Readiness.Report(isReady: true, lines: ["[+] clock ok: a word", "[+] draining ok"])
            )
            readiness.drain()
            #expect(try await Self.ask(port, "/readyz").0 == 503)
            #expect(try await Self.ask(port, "/livez").0 == 200)
            let metrics = try await Self.ask(port, "/metrics")
            #expect(metrics.0 == 200 && metrics.1.contains("upstream_build_info{version=\"1\"} 1\n"))
            #expect(metrics.2.value(forHTTPHeaderField: "Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
            let head = try await Self.ask(port, "/livez", "HEAD")
            #expect(head.0 == 200 && head.1.isEmpty && head.2.value(forHTTPHeaderField: "Content-Length") == "3")
            #expect(try await Self.ask(port, "/livez", "POST").0 == 405)
            #expect(try await Self.ask(port, "/").0 == 404)
        }
    }

    @Test("connections that are held open keep no probe out")
    func held() async throws {
        try await serving(Readiness([])) { port in
            var held: [any Channel] = []
            for _ in 0..<100 {
                held.append(
                    try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                        .connect(host: "127.0.0.1", port: port).get()
                )
            }
            #expect(try await Self.ask(port, "/livez").0 == 200)
            // Each newcomer has replaced the oldest.
            try await waitUntil { held.count(where: \.isActive) <= 32 }
            for channel in held { try? await channel.close() }
        }
    }

    @Test("off means off")
    func off() {
        let metrics = Metrics(senders: [], categories: [], handlers: [], version: "1")
        #expect(AdminServer(.off, metrics: metrics, readiness: Readiness([]), logger: Logger(label: "x")) == nil)
    }

    @Test("a port that is taken is an error that says what to do")
    func taken() async throws {
        try await serving(Readiness([])) { port in
            let metrics = Metrics(senders: [], categories: [], handlers: [], version: "1")
            let output = MemoryLogOutput()
            let logger = Logger.lines(label: "admin", level: .error, format: .json, output: output)
            let made = AdminServer(
                .tcp(host: "127.0.0.1", port: port),
                metrics: metrics,
                readiness: Readiness([]),
                logger: logger
            )
            let second = try #require(made)
            await #expect(throws: WorkerError.self) { try await second.run() }
            #expect(output.lines.contains { $0.contains("admin.failed") })
        }
    }
}
