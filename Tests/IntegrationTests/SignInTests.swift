import Foundation
import IntegrationSupport
import TLSWire
import Testing
import Worker

extension Integration {
    /// Signing in to a server that shares no line with ours, and what becomes of it with somebody in between.
    @Suite struct SignInTests {
        private static let user = "1234567890"
        private static let scram = ["SCRAM-SHA-1", "SCRAM-SHA-256"]
        private static let plus = ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-256-PLUS"]

        /// An authority, certificates of it, and what runs with them.
        private final class Stage {
            let folder: TemporaryFolder
            let authority: CertificateAuthority
            let authorityFile: String

            init() throws {
                folder = try TemporaryFolder()
                authority = try CertificateAuthority()
                authorityFile = try folder.write(authority.certificatePEM, as: "ca.pem")
            }

            /// Starts the tool with a certificate for the domain, whose key nobody else has.
            func start(_ mode: String, _ options: [String: Any]) async throws -> ScramTool {
                let identity = try authority.issue(CertificateRequest(dnsNames: ["chat.example"]))
                return try await ScramTool.start(mode, identity, options, in: folder)
            }

            /// Starts a server.
            func serve(_ mechanisms: [String], _ more: [String: Any] = [:]) async throws -> ScramTool {
                let options: [String: Any] = [
                    "domain": "chat.example", "user": SignInTests.user, "mechanisms": mechanisms,
                ]
                return try await start("serve", options.merging(more) { _, new in new })
            }

            /// What `check --connect` says of whoever listens at this port.
            func check(_ port: Int) async throws -> Probe.Result {
                let secret = try folder.write(Array("\(ScramTool.secret)\n".utf8), as: "secret")
                let yaml = """
                    database: {url: "postgresql:///nowhere"}
                    senders:
                      - sender_id: "\(SignInTests.user)"
                        host: 127.0.0.1
                        port: \(port)
                        domain: chat.example
                        dialect: xmpp
                        secret_file: \(secret)
                        tls: {ca_file: \(authorityFile)}
                    """
                let configuration = try ConfigurationLoader(environment: [:])
                    .read(yaml: yaml, path: "worker.yaml").configuration
                let outcomes = await ProbeSequence.sender(configuration, index: 0).run()
                return try #require(outcomes.first).result
            }
        }

        private static func passed(_ result: Probe.Result) throws -> String {
            guard case .passed(let detail) = result else { throw WaitedTooLong(description: "\(result)") }
            return detail
        }

        private static func failed(_ result: Probe.Result) throws -> (cause: String, status: Worker.ExitStatus) {
            guard case .failed(let cause, _, let status) = result else { throw WaitedTooLong(description: "\(result)") }
            #expect(!cause.contains(ScramTool.secret))
            return (cause, status)
        }

        @Test(
            "a server of pyOpenSSL's sees our proof bound to the connection by each type, and the check says so",
            arguments: [
                ("tls-exporter", "1.3"), ("tls-server-end-point", "1.3"), ("tls-exporter", "1.2"),
                ("tls-unique", "1.2"),
            ]
        )
        func channelBinding(_ kind: String, _ version: String) async throws {
            let stage = try Stage()
            let options: [String: Any] = [
                "types": [kind], "list": ["x-other", kind], "maximum": version, "ssdp": true,
            ]
            let server = try await stage.serve(Self.scram + Self.plus, options)
            let detail = try Self.passed(try await stage.check(server.port))
            #expect(server.lines.contains("authenticated SCRAM-SHA-256-PLUS \(kind) TLSv\(version)"), "\(server.lines)")
            #expect(detail.contains("TLS: TLSv\(version)"), "\(detail)")
            #expect(
                detail.contains("signed in: SCRAM-SHA-256-PLUS, bound to the TLS connection by \(kind)"),
                "\(detail)"
            )
            #expect(detail.contains("offered channel bindings: \(kind)"), "\(detail)")
            try await server.stop()
        }

        @Test("somebody in between, whose certificate we trust, is refused: our proof is for another TLS connection")
        func betweenWithAnotherKey() async throws {
            for kind in ["tls-exporter", "tls-server-end-point"] {
                let stage = try Stage()
                let server = try await stage.serve(Self.scram + Self.plus, ["types": [kind], "list": [kind]])
                let relay = try await stage.start("relay", ["port": server.port])
                let (cause, status) = try Self.failed(try await stage.check(relay.port))
                #expect(status == .refused && cause.contains("in the server's place"), "\(cause)")
                #expect(server.lines.contains("refused: the client sees another TLS connection"), "\(server.lines)")
                #expect(relay.lines.contains("between TLSv1.3 TLSv1.3"))
                // The same server, without anybody in between.
                _ = try Self.passed(try await stage.check(server.port))
                try await relay.stop()
                try await server.stop()
            }
        }

        @Test("somebody in between who hides channel binding is noticed by the server, which our flag tells")
        func bindingHidden() async throws {
            let stage = try Stage()
            let types = ["tls-exporter", "tls-server-end-point"]
            let server = try await stage.serve(Self.scram + Self.plus, ["types": types, "list": types])
            let hide = ["<mechanism>[A-Z0-9-]*-PLUS</mechanism>", "<sasl-channel-binding.*</sasl-channel-binding>"]
            let relay = try await stage.start("relay", ["port": server.port, "hide": hide])
            let (cause, status) = try Self.failed(try await stage.check(relay.port))
            #expect(status == .refused && cause.contains("off its list"), "\(cause)")
            #expect(
                server.lines.contains("refused: the client takes us for a server without channel binding"),
                "\(server.lines)"
            )
            try await relay.stop()
            // Half of it hidden never leaves us: the one half gives the other away.
            for pattern in [hide[0], "(?<=type=')tls-"] {
                let relay = try await stage.start("relay", ["port": server.port, "hide": [pattern]])
                let before = server.lines.count
                #expect(try Self.failed(try await stage.check(relay.port)).cause.contains("its list"), "\(pattern)")
                #expect(
                    server.lines.dropFirst(before).allSatisfy { !$0.contains("refused") && !$0.contains("authent") }
                )
                try await relay.stop()
            }
            try await server.stop()
        }

        @Test("somebody in between who hides a stronger mechanism is noticed where the server knows XEP-0474")
        func mechanismsHidden() async throws {
            let stage = try Stage()
            let server = try await stage.serve(Self.scram + ["PLAIN"], ["ssdp": true])
            let hide = ["<mechanism>SCRAM-SHA-256</mechanism>"]
            let relay = try await stage.start("relay", ["port": server.port, "hide": hide])
            let (cause, status) = try Self.failed(try await stage.check(relay.port))
            #expect(status == .refused && cause.contains("XEP-0474"), "\(cause)")
            #expect(!server.lines.contains { $0.hasPrefix("authenticated") }, "\(server.lines)")
            try await relay.stop()
            let greedy = try await stage.start(
                "relay",
                ["port": server.port, "hide": ["<mechanism>SCRAM[^<]*</mechanism>"]]
            )
            #expect(try Self.failed(try await stage.check(greedy.port)).cause.contains("`allow_plain: true`"))
            try await greedy.stop()
            #expect(try Self.passed(try await stage.check(server.port)).contains("signed in: SCRAM-SHA-256"))
            try await server.stop()
        }
    }
}

/// `Tests/Tools/scram_server.py`: a server, or somebody in between.
final class ScramTool: Sendable {
    static let secret = "FAKE-SECRET-never-in-a-log"

    let port: Int
    private let process: ServerProcess
    private let log: URL

    private init(port: Int, process: ServerProcess, log: URL) {
        self.port = port
        self.process = process
        self.log = log
    }

    static func start(
        _ mode: String,
        _ identity: IssuedCertificate,
        _ options: [String: Any],
        in folder: TemporaryFolder
    ) async throws -> ScramTool {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let python =
            ProcessInfo.processInfo.environment["UPSTREAM_TEST_PYTHON"]
            ?? tests.deletingLastPathComponent().appending(path: ".build/test-tools/bin/python3").path
        try #require(
            FileManager.default.isExecutableFile(atPath: python),
            "no \(python); make it with scripts/install-test-tools"
        )
        let name = "\(mode)-\(UInt32.random(in: 0...UInt32.max))"
        let chain = try folder.write(identity.chainPEM, as: "\(name)-chain.pem")
        let key = try folder.write(identity.keyPEM, as: "\(name)-key.pem")
        let log = folder.url.appending(path: "\(name).out")
        let json = String(decoding: try JSONSerialization.data(withJSONObject: options), as: UTF8.self)
        let process = try ServerProcess(
            [python, tests.appending(path: "Tools/scram_server.py").path, mode, chain, key, json],
            log: log.path
        )
        try process.write("\(secret)\n")
        var port: Int?
        try await waitUntil("the \(mode) listens") {
            let text = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
            guard process.isRunning else { throw WaitedTooLong(description: "it has ended: \(text)") }
            port = text.split(separator: "\n").first { $0.hasPrefix("listening ") }.flatMap { Int($0.dropFirst(10)) }
            return port != nil && text.contains("\n")
        }
        return ScramTool(port: try #require(port), process: process, log: log)
    }

    /// What it has printed.
    var lines: [String] {
        ((try? String(contentsOf: log, encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
    }

    func stop() async throws { try await process.stop() }
}
