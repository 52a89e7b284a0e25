import Foundation
import IntegrationSupport
import Probing
import Telemetry
import Testing
import UpstreamConfiguration
import Vocabulary
import Worker

extension StandardServer {
    /// A worker's configuration for it, as an external component.
    func componentYAML(
        _ database: Database,
        tls: Bool = false,
        connections: Int = 1,
        window: Int = 100,
        trusted: String? = nil,
        secret: String = StandardServer.secret,
        keepalive: String = "{interval: 30s, timeout: 15s}"
    ) throws -> String {
        let secretFile = try scratch.write(secret.utf8, as: "secret-\(UInt32.random(in: 0...UInt32.max))")
        let direct = "{mode: direct, ca_file: \(authorityFile), server_name: \(Self.component)}"
        return """
            database: {url: "\(database.url)"}
            senders:
              - sender_id: upstream
                host: 127.0.0.1
                port: \(tls ? ports.componentTLS : ports.component)
                domain: \(Self.component)
                dialect: component
                connections: \(connections)
                window: \(window)
                secret_file: \(secretFile)
                tls: \(tls ? direct : "{mode: none}")
            \(trusted.map { "    trusted_from: \($0)" } ?? "")
                keepalive: \(keepalive)
            admin: {listen: "127.0.0.1:0"}
            log: {level: debug, format: json}

            """
    }
}

extension StandardSender {
    /// Sends messages with these ids to a local part of the component; none for the domain itself.
    func send(_ ids: some Sequence<String>, to local: String?, domain: String = StandardServer.component) throws {
        let to = (local.map { "\($0)@" } ?? "") + domain
        for id in ids {
            let payload = #"{"message_id":"\#(id)","from":"FAKE-token","category":"com.example","data":{"n":"\#(id)"}}"#
            try send(
                stanza: "<message to='\(to)' id='\(id)'><gcm xmlns='google:mobile:data'>\(payload)</gcm></message>"
            )
        }
    }

    /// Sends what is not acked yet again and again, as a device has to, until everything is.
    func sendUntilAcked(_ ids: [String], to local: String = "orders", limit: Duration = .seconds(180)) async throws {
        var due = ContinuousClock.now
        try await waitUntil("every message is acked", limit: limit) {
            let acked = Set(acks)
            let missing = ids.filter { !acked.contains($0) }
            if missing.isEmpty { return true }
            if ContinuousClock.now >= due {
                try send(missing, to: local)
                due = ContinuousClock.now + .seconds(1)
            }
            return false
        }
    }
}

extension Integration {
    /// The worker as an external component of a standard server (XEP-0114).
    @Suite struct ComponentServerTests {
        static func ids(_ range: ClosedRange<Int>) -> [String] { range.map { "m\($0)" } }

        /// Runs a test on a server of its own, with a device that writes to the component.
        static func run(
            _ kind: ServerKind,
            _ body: (StandardServer, StandardSender, Database) async throws -> Void
        ) async throws {
            let database = try await Database()
            let server = try await StandardServer.start(kind)
            do {
                let device = try await StandardSender.start(server, to: "orders@\(StandardServer.component)")
                try await body(server, device, database)
            } catch {
                let tail = server.log.split(separator: "\n").suffix(40).joined(separator: "\n")
                FileHandle.standardError.write(Data("\(kind.rawValue)'s last words:\n\(tail)\n".utf8))
                try? await server.stop()
                throw error
            }
            try await server.stop()
        }

        /// Runs a worker inside this process, until it has ended in order.
        static func withWorker(_ yaml: String, _ body: (LocalWorker) async throws -> Void) async throws {
            let worker = try LocalWorker(yaml: yaml)
            do {
                try await waitUntil("the component is connected") {
                    worker.metrics.connections(sender: 0, state: .bound).value >= 1
                }
                try await body(worker)
            } catch {
                await worker.abandon()
                FileHandle.standardError.write(Data(worker.logs.lines.suffix(15).joined().utf8))
                throw error
            }
            try await worker.stop()
        }

        @Test(
            "messages to any local part and to the domain are stored once, and acked from the address they went to",
            arguments: ServerKind.allCases
        )
        func addresses(_ kind: ServerKind) async throws {
            try await Self.run(kind) { server, device, database in
                try await Self.withWorker(server.componentYAML(database)) { worker in
                    try device.send(Self.ids(1...20), to: "orders")
                    try device.send(Self.ids(21...40), to: "Telemetry.v2", domain: "\(StandardServer.component)/unit 7")
                    try device.send(["m41"], to: nil)
                    try device.send(["m42"], to: "upper", domain: "UPSTREAM.ccs.TEST")
                    try await waitUntil("every message is acked") { device.acks.count >= 42 }
                    #expect(device.acks.sorted() == Self.ids(1...42).sorted() && device.errors.isEmpty)
                    #expect(device.acks(from: "orders@upstream.ccs.test") == Set(Self.ids(1...20)))
                    #expect(device.acks(from: "upstream.ccs.test") == ["m41"])
                    #expect(device.acks(from: "upper@upstream.ccs.test") == ["m42"])
                    #expect(worker.settled(.stored) == 42 && worker.settled(.duplicate) == 0)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
                #expect(try await database.count("messages") == 42)
            }
        }

        @Test("TLS from the first byte, where the server has it for components; another name is refused")
        func overTLS() async throws {
            try await Self.run(.ejabberd) { server, device, database in
                let yaml = try server.componentYAML(database, tls: true)
                try await Self.withWorker(yaml) { _ in
                    try await device.sendUntilAcked(Self.ids(1...20))
                }
                let wrong = yaml.replacing("server_name: \(StandardServer.component)", with: "server_name: other.test")
                let worker = try LocalWorker(yaml: wrong)
                try await waitUntil("it is refused") { worker.metrics.reconnects[.tlsFailed].value >= 1 }
                try await worker.stop()
                // And a port without TLS for one that must have it.
                let clear = yaml.replacing(
                    "port: \(server.ports.componentTLS)",
                    with: "port: \(server.ports.component)"
                )
                let other = try LocalWorker(yaml: clear)
                try await waitUntil("nothing is sent") { other.metrics.reconnects[.tlsFailed].value >= 1 }
                #expect(other.logs.lines.contains { $0.contains("tls.mode: none") })
                try await other.stop()
            }
        }

        @Test(
            "a wrong secret is refused, check says what to do, and the right one is told apart from its neighbours",
            arguments: ServerKind.allCases
        )
        func secrets(_ kind: ServerKind) async throws {
            try await Self.run(kind) { server, _, database in
                func check(_ secret: String, _ domain: String = StandardServer.component) async throws -> Probe.Result?
                {
                    let yaml = try server.componentYAML(database, trusted: "[x.test]", secret: secret)
                        .replacing("domain: \(StandardServer.component)", with: "domain: \(domain)")
                    let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "t.yaml")
                        .configuration
                    return await ProbeSequence.sender(configuration, index: 0).run().first?.result
                }
                for wrong in ["FAKE-wrong", StandardServer.secret + " ", StandardServer.secret.lowercased()] {
                    guard case .failed(let cause, let fix, .refused)? = try await check(wrong) else {
                        Issue.record("accepted: '\(wrong)'")
                        continue
                    }
                    #expect(
                        cause.contains("component_secret") && fix.contains("secret_file") && !cause.contains("FAKE-")
                    )
                }
                for right in [StandardServer.secret, StandardServer.secret + "\n", StandardServer.secret + "\r\nold\n"]
                {
                    guard case .passed(let detail)? = try await check(right) else {
                        Issue.record("refused: \(right.utf8.count)")
                        continue
                    }
                    #expect(detail.contains("send a message again until it is acked"))
                }
                // The server prepares names; what it doesn't know it refuses in its own way.
                guard case .passed? = try await check(StandardServer.secret, "UPSTREAM.ccs.test.") else {
                    Issue.record("a name in upper case is refused")
                    return
                }
                guard case .failed? = try await check(StandardServer.secret, "unknown.ccs.test") else {
                    Issue.record("an unknown name is accepted")
                    return
                }
            }
        }

        @Test(
            "only those whom trusted_from names are heard; by default every account of the server is",
            arguments: ServerKind.allCases
        )
        func trust(_ kind: ServerKind) async throws {
            try await Self.run(kind) { server, device, database in
                let stranger = try await StandardSender.start(server, as: StandardServer.stranger)
                let one = "[\"\(StandardServer.peer)@\(StandardServer.domain)\"]"
                try await Self.withWorker(server.componentYAML(database, trusted: one)) { worker in
                    try stranger.send(["s1"], to: "orders")
                    try await waitUntil("it is counted") { worker.metrics.stanzas[.untrusted].value == 1 }
                    try await device.sendUntilAcked(["m1"])
                    #expect(stranger.acks.isEmpty && worker.settled(.stored) == 1)
                }
                try await Self.withWorker(server.componentYAML(database)) { _ in
                    try await stranger.sendUntilAcked(["s1"])
                }
                try await stranger.stop()
            }
        }

        @Test(
            "while no worker is connected the server returns messages; sent again, each is stored once",
            arguments: ServerKind.allCases
        )
        func noWorker(_ kind: ServerKind) async throws {
            try await Self.run(kind) { server, device, database in
                let ids = Self.ids(1...20)
                try device.send(ids, to: "orders")
                try await waitUntil("all come back") { device.errors.count == ids.count }
                #expect(device.acks.isEmpty)
                try await Self.withWorker(server.componentYAML(database)) { worker in
                    try await device.sendUntilAcked(ids)
                    #expect(worker.settled(.stored) == ids.count)
                }
                #expect(try await database.count("messages") == ids.count)
            }
        }
    }
}
