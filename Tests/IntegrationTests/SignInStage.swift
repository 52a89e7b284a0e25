import Foundation
import IntegrationSupport
import Probing
import TLSWire
import Testing
import UpstreamConfiguration
import Worker

/// An authority, certificates of it, and what runs with them.
final class SignInStage {
    static let user = "1234567890"

    struct Unexpected: Error {
        var result: Probe.Result
    }

    let folder: TemporaryFolder
    let authority: CertificateAuthority
    let authorityFile: String

    init() throws {
        folder = try TemporaryFolder()
        // The servers of the tests have one of the usual name, and both are trusted at the same time.
        authority = try CertificateAuthority(commonName: "Signing-in authority")
        authorityFile = try folder.write(authority.certificatePEM, as: "ca.pem")
    }

    /// Starts the tool with a certificate for the domain, whose key nobody else has.
    func start(_ mode: String, _ options: [String: Any], domain: String = "chat.example") async throws -> ScramTool {
        let identity = try authority.issue(CertificateRequest(dnsNames: [domain]))
        return try await ScramTool.start(mode, identity, options, in: folder)
    }

    /// Starts a server.
    func serve(_ mechanisms: [String], _ more: [String: Any] = [:]) async throws -> ScramTool {
        let options: [String: Any] = ["domain": "chat.example", "user": Self.user, "mechanisms": mechanisms]
        return try await start("serve", options.merging(more) { _, new in new })
    }

    /// What `check --connect` says of whoever listens at this port.
    ///
    /// - Parameters:
    ///   - port: On the loopback address.
    ///   - domain: The XMPP domain.
    ///   - trusted: More authorities, PEM.
    ///   - certificate: A client certificate, in the place of the secret.
    ///   - keys: Another key of the sender, with its value.
    /// - Returns: The probe's result.
    /// - Throws: Where the configuration can't be read.
    func check(
        _ port: Int,
        domain: String = "chat.example",
        trusted: String? = nil,
        certificate: IssuedCertificate? = nil,
        more keys: String = ""
    ) async throws -> Probe.Result {
        let yaml = try self.yaml(port, domain: domain, trusted: trusted, certificate: certificate, more: keys)
        let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "worker.yaml")
            .configuration
        let outcomes = await ProbeSequence.sender(configuration, index: 0).run()
        return try #require(outcomes.first).result
    }

    /// A worker's configuration; the arguments are those of the check.
    func yaml(
        _ port: Int,
        domain: String,
        trusted: String?,
        certificate: IssuedCertificate?,
        database: String = "postgresql:///nowhere",
        more keys: String = ""
    ) throws -> String {
        let more = try trusted.map { try Array(Data(contentsOf: URL(filePath: $0))) } ?? []
        let trust = try folder.write(authority.certificatePEM + more, as: "trust.pem")
        var credentials = "secret_file: \(try folder.write(Array("\(ScramTool.secret)\n".utf8), as: "secret"))"
        var tls = "ca_file: \(trust)"
        if let certificate {
            credentials = "window: 100"
            tls += ", client_certificate_file: \(try folder.write(certificate.chainPEM, as: "client.pem"))"
            tls += ", client_key_file: \(try folder.write(certificate.keyPEM, as: "client-key.pem"))"
        }
        return """
            database: {url: "\(database)"}
            senders:
              - sender_id: "\(Self.user)"
                host: 127.0.0.1
                port: \(port)
                domain: \(domain)
                dialect: xmpp
                \(credentials)
                tls: {\(tls)}
                \(keys)
            admin: {listen: "127.0.0.1:0"}

            """
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
        let name = "\(mode)-\(UInt32.random(in: 0...UInt32.max))"
        let chain = try folder.write(identity.chainPEM, as: "\(name)-chain.pem")
        let key = try folder.write(identity.keyPEM, as: "\(name)-key.pem")
        let log = folder.url.appending(path: "\(name).out")
        let json = String(decoding: try JSONSerialization.data(withJSONObject: options), as: UTF8.self)
        let process = try ServerProcess(
            [TestTools.python(), TestTools.path("scram_server.py"), mode, chain, key, json],
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
