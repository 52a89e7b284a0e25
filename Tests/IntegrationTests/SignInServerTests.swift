import Foundation
import IntegrationSupport
import MessageStore
import Postgres
import Probing
import TLSWire
import Testing
import UpstreamConfiguration
import Vocabulary
import Worker

extension Integration {
    /// Signing in to real servers, and past somebody who sits between.
    @Suite struct SignInServerTests {
        private static let domain = StandardServer.domain

        private static func withServer(
            _ kind: ServerKind,
            _ options: ServerOptions,
            _ body: (StandardServer) async throws -> Void
        ) async throws {
            let server = try await StandardServer.start(kind, options)
            do {
                try await body(server)
            } catch {
                let tail = server.log.split(separator: "\n").suffix(30).joined(separator: "\n")
                FileHandle.standardError.write(Data("\(kind.rawValue)'s last words:\n\(tail)\n".utf8))
                try? await server.stop()
                throw error
            }
            try await server.stop()
        }

        @Test(
            "over TLS 1.2 both servers take our proof bound by tls-unique, and refuse it from in between",
            arguments: ServerKind.allCases
        )
        func unique(_ kind: ServerKind) async throws {
            try await Self.withServer(kind, ServerOptions(isTLS12: true)) { server in
                let stage = try SignInStage()
                let port = server.ports.direct
                let detail = try SignInTests.passed(
                    try await stage.check(port, domain: Self.domain, trusted: server.authorityFile)
                )
                #expect(detail.contains("TLS: TLSv1.2"), "\(detail)")
                #expect(detail.contains("SCRAM-SHA-256-PLUS, bound to the TLS connection by tls-unique"), "\(detail)")
                // Servers write their logs beside what they do.
                let words =
                    kind == .ejabberd
                    ? "Accepted c2s SCRAM-SHA-256-PLUS authentication" : "Channel binding 'tls-unique' supported"
                try await waitUntil("the server's log has it") { server.log.contains(words) }
                // Somebody in between whose certificate we trust: with TLS 1.2 on our side too, then with TLS 1.3.
                let old = try await stage.start("relay", ["port": port, "maximum": "1.2"], domain: Self.domain)
                let (cause, status) = try SignInTests.failed(try await stage.check(old.port, domain: Self.domain))
                #expect(status == .refused && cause.contains("in the server's place"), "\(cause)")
                try await old.stop()
                let new = try await stage.start("relay", ["port": port], domain: Self.domain)
                let result = try await stage.check(new.port, domain: Self.domain)
                switch kind {
                case .prosody:
                    #expect(try SignInTests.failed(result).cause.contains("off its list"))
                case .ejabberd:
                    // It takes the word of a client that it has no channel binding for an ordinary one.
                    #expect(try SignInTests.passed(result).contains("signed in: SCRAM-SHA-256\n"))
                }
                try await new.stop()
            }
        }

        @Test(
            "over TLS 1.3, where neither has channel binding, both are signed in to without",
            arguments: ServerKind.allCases
        )
        func unbound(_ kind: ServerKind) async throws {
            try await Self.withServer(kind, ServerOptions()) { server in
                let detail = try SignInTests.passed(
                    try await SignInStage().check(
                        server.ports.direct,
                        domain: Self.domain,
                        trusted: server.authorityFile
                    )
                )
                #expect(detail.contains("TLS: TLSv1.3") && detail.contains("signed in: SCRAM-SHA-256\n"), "\(detail)")
                #expect(detail.contains("offered channel bindings: no list"), "\(detail)")
                // ejabberd offers a kind that TLS 1.3 does not have.
                #expect(detail.contains("note: the server offers channel binding") == (kind == .ejabberd), "\(detail)")
            }
        }

        @Test(
            "a sender that has signed in bound signs in by nothing less, in a new process too, until its pin is forgotten",
            arguments: ServerKind.allCases
        )
        func pinned(_ kind: ServerKind) async throws {
            try await Self.withServer(kind, ServerOptions(isTLS12: true)) { server in
                let stage = try SignInStage()
                let database = try await Database()
                func yaml(_ port: Int) throws -> String {
                    try stage.yaml(
                        port,
                        domain: Self.domain,
                        trusted: server.authorityFile,
                        certificate: nil,
                        database: database.url
                    )
                }
                func check(_ port: Int) async throws -> Probe.Result {
                    let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml(port), path: "w.yaml")
                    let outcomes = await ProbeSequence.sender(configuration.configuration, index: 0).run()
                    return try #require(outcomes.first).result
                }
                func pins() async throws -> [String] {
                    try await database.texts(
                        "SELECT sender_id || ' ' || domain || ' ' || binding FROM upstream.channel_bindings"
                    )
                }
                // A look changes nothing.
                #expect(!(try SignInTests.passed(try await check(server.ports.direct)).contains("pinned")))
                #expect(try await pins().isEmpty)
                let first = try LocalWorker(yaml: try yaml(server.ports.direct))
                try await waitUntil("its sign-in is remembered") {
                    try await pins() == ["\(SignInStage.user) \(Self.domain) tls-unique"]
                }
                #expect(first.logs.lines.count { $0.contains("stream.pinned") } == 1)
                try await first.stop()
                #expect(try SignInTests.passed(try await check(server.ports.direct)).contains("pinned: by tls-unique"))

                // Somebody in between, whose TLS 1.3 has no binding that the server offers.
                let relay = try await stage.start("relay", ["port": server.ports.direct], domain: Self.domain)
                let second = try LocalWorker(yaml: try yaml(relay.port))
                try await waitUntil("it is refused") {
                    second.logs.lines.contains { $0.contains("stream.sasl_refused") }
                }
                let line = try #require(second.logs.lines.first { $0.contains("stream.sasl_refused") })
                #expect(line.contains("(pinned)") && line.contains("check --forget-pin"), "\(line)")
                #expect(!second.logs.lines.contains { $0.contains("stream.bound") })
                let (cause, status) = try SignInTests.failed(try await check(relay.port))
                #expect(status == .refused && cause.contains("(pinned)"), "\(cause)")

                // What the command does; the running worker learns it, and the server decides again.
                let connection = try await PostgresConnection.open(PostgresSettings(url: database.url))
                let count = try await connection.inTransaction { connection throws(PostgresError) in
                    try BindingPins.forget(connection, SignInStage.user, by: AuditAuthor("tester", via: .command))
                }
                #expect(count == 1)
                await connection.close()
                try await waitUntil("it signs in unbound, or the server refuses that") {
                    second.logs.lines.contains {
                        kind == .ejabberd ? $0.contains("stream.bound") : $0.contains("off its list")
                    }
                }
                #expect(try await pins().isEmpty)
                try await second.stop()
                try await relay.stop()
            }
        }

        @Test(
            "the audit of an archive signs in by nothing less than a pinned sender's worker, nor while pins can't be read (G9)",
            arguments: ServerKind.allCases
        )
        func pinnedArchive(_ kind: ServerKind) async throws {
            try await Self.withServer(kind, ServerOptions(isTLS12: true, archive: true)) { server in
                let stage = try SignInStage()
                let database = try await Database()
                func read(_ port: Int) async throws {
                    let yaml = try stage.yaml(
                        port,
                        domain: Self.domain,
                        trusted: server.authorityFile,
                        certificate: nil,
                        database: database.url,
                        more: "archive: {catch_up: on}"
                    )
                    let loaded = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "w.yaml")
                    let reading = try #require(ArchiveReading.all(loaded.configuration).first)
                    try await reading.read(since: nil, until: .now) { _, _ in }
                }
                func failure(_ port: Int) async throws -> ArchiveReading.Failure {
                    let error = await #expect(throws: ArchiveReading.Failure.self) { try await read(port) }
                    return try #require(error)
                }
                try await database.script(
                    """
                    INSERT INTO upstream.channel_bindings (sender_id, domain, binding)
                    VALUES ('\(SignInStage.user)', '\(Self.domain)', 'tls-unique')
                    """
                )
                try await read(server.ports.direct)
                // Somebody in between, whose TLS 1.3 has no binding that the server offers.
                let relay = try await stage.start("relay", ["port": server.ports.direct], domain: Self.domain)
                let refused = try await failure(relay.port)
                #expect(refused.status == .refused && refused.message.contains("(pinned)"), "\(refused)")
                try await relay.stop()
                try await database.script("ALTER TABLE upstream.channel_bindings RENAME TO elsewhere")
                let unknown = try await failure(server.ports.direct)
                #expect(unknown.status == .unavailable && unknown.message.contains("channel binding"), "\(unknown)")
                #expect(![refused, unknown].contains { $0.message.contains(StandardServer.secret) })
            }
        }

        @Test("ejabberd takes a client certificate that names the account, and no other")
        func external() async throws {
            let stage = try SignInStage()
            // The server runs as a user of its own.
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: stage.authorityFile)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: stage.folder.url.path)
            try await Self.withServer(.ejabberd, ServerOptions(clientAuthority: stage.authorityFile)) { server in
                func check(_ address: String) async throws -> Probe.Result {
                    let request = CertificateRequest(
                        otherNames: [.xmppAddress(address)],
                        isClient: true,
                        commonName: "worker"
                    )
                    return try await stage.check(
                        server.ports.direct,
                        domain: Self.domain,
                        trusted: server.authorityFile,
                        certificate: try stage.authority.issue(request)
                    )
                }
                let detail = try SignInTests.passed(try await check("\(SignInStage.user)@\(Self.domain)"))
                #expect(detail.contains("signed in: EXTERNAL"), "\(detail)")
                try await waitUntil("the server's log has it") {
                    server.log.contains("Accepted c2s EXTERNAL authentication for \(SignInStage.user)@\(Self.domain)")
                }
                let (cause, status) = try SignInTests.failed(
                    try await check("\(StandardServer.stranger)@\(Self.domain)")
                )
                #expect(status == .refused && cause.contains("client certificate"), "\(cause)")
            }
        }

        @Test("a worker says how it has signed in, and warns of a client certificate that ends soon")
        func logged() async throws {
            let stage = try SignInStage()
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: stage.authorityFile)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: stage.folder.url.path)
            let database = try await Database()
            try await Self.withServer(.ejabberd, ServerOptions(clientAuthority: stage.authorityFile)) { server in
                func yaml(_ certificate: IssuedCertificate) throws -> String {
                    try stage.yaml(
                        server.ports.direct,
                        domain: Self.domain,
                        trusted: server.authorityFile,
                        certificate: certificate,
                        database: database.url
                    )
                }
                let address = "\(SignInStage.user)@\(Self.domain)"
                let request = CertificateRequest(
                    otherNames: [.xmppAddress(address)],
                    isClient: true,
                    commonName: "w",
                    validity: -3_600...86_400
                )
                var issued = try stage.authority.issue(request)
                let worker = try LocalWorker(yaml: yaml(issued))
                try await waitUntil("the stream is bound") { worker.isLoggedIn }
                let lines = worker.logs.lines
                try await worker.stop()
                let authenticated = lines.filter { $0.contains("\"event\":\"stream.authenticated\"") }
                #expect(authenticated.count == 1 && authenticated[0].contains("\"mechanism\":\"EXTERNAL\""), "\(lines)")
                #expect(
                    authenticated.allSatisfy {
                        $0.contains("\"binding\":\"none\"") && $0.contains("SCRAM-SHA-256-PLUS")
                    }
                )
                #expect(lines.contains { $0.contains("tls.certificate_expiring") })
                #expect(!lines.contains { $0.contains("PRIVATE KEY") || $0.contains(StandardServer.secret) })
                // A key of another certificate is an error of the configuration.
                issued.keyPEM = try stage.authority.issue(request).keyPEM
                let unusable = try yaml(issued)
                let error = #expect(throws: WorkerError.self) { try LocalWorker(yaml: unusable) }
                #expect("\(String(describing: error))".contains("tls.client_key_file"))
            }
        }
    }
}
