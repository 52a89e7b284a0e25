import ConfigurationKeys
import DNS
import Dispatcher
import Foundation
import HTTPWire
import IntegrationSupport
import TLSWire
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// A webhook's own certificate, at an endpoint (Python's `ssl`) that demands one.
@Suite(.serialized, .timeLimit(.minutes(10))) struct WebhookIdentityTests {
    /// An endpoint's and its clients' certificates, in files.
    private final class Files: Sendable {
        let folder = URL(fileURLWithPath: "/tmp/upstream-webhook-identity-\(UUID().uuidString)")
        let authority: CertificateAuthority

        init() throws {
            authority = try CertificateAuthority()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try write(authority.certificatePEM, as: "ca.pem")
            let server = try authority.issue(CertificateRequest(dnsNames: ["endpoint.invalid"]))
            try write(server.chainPEM, as: "server.pem")
            try write(server.keyPEM, as: "server.key")
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        func path(_ name: String) -> String { folder.appending(path: name).path }

        func write(_ bytes: [UInt8], as name: String) throws {
            try Data(bytes).write(to: folder.appending(path: name), options: .atomic)
        }

        /// Puts a client's certificate, or its key only, into the files that the webhook uses.
        func issue(
            _ name: String,
            by other: CertificateAuthority? = nil,
            certificate: Bool = true,
            key: Bool = true
        ) throws {
            let issued = try (other ?? authority).issue(CertificateRequest(isClient: true, commonName: name))
            if certificate { try write(issued.chainPEM, as: "client.pem") }
            if key { try write(issued.keyPEM, as: "client.key") }
        }

        var tls: WebhookTLSFiles {
            WebhookTLSFiles(ca: path("ca.pem"), certificate: path("client.pem"), key: path("client.key"))
        }

        func receiver() throws -> WebhookReceiver {
            try WebhookReceiver(certificate: (path("server.pem"), path("server.key")), clientAuthority: path("ca.pem"))
        }
    }

    private func handler(_ receiver: WebhookReceiver, name: String, _ tls: WebhookTLSFiles) throws -> WebhookHandler {
        try WebhookHandler(
            try #require(HTTPEndpoint("https://endpoint.invalid:\(receiver.port)/identity?name=\(name)")),
            WebhookHandler.Options(
                timeout: .seconds(20),
                policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init)),
                tls: tls
            ),
            resolver: AddressResolver { _ in ["127.0.0.1"].compactMap(NetworkAddress.init) }
        ) { [Array(WebhookReceiver.secret.utf8)] }
    }

    private func verdict(_ handler: WebhookHandler) async -> HandlerVerdict {
        await .of(handler, .sample(category: "c", data: "{}"), HandlerContext(handler: "h"))
    }

    private func isRefused(_ verdict: HandlerVerdict) -> Bool {
        guard case .down(_, _, let failure) = verdict else { return false }
        return !failure.group.contains("status") && !failure.group.contains("timeout")
    }

    @Test("An endpoint that demands a certificate gets ours, and no other one will do")
    func demanded() async throws {
        let files = try Files()
        let receiver = try files.receiver()
        try files.issue("worker-1")
        let good = try handler(receiver, name: "worker-1", files.tls)
        #expect(await verdict(good) == .done)
        let none = try handler(receiver, name: "worker-1", WebhookTLSFiles(ca: files.path("ca.pem")))
        #expect(isRefused(await verdict(none)))
        try files.issue("worker-1", by: try CertificateAuthority())
        let other = try handler(receiver, name: "worker-1", files.tls)
        #expect(isRefused(await verdict(other)))
        for handler in [good, none, other] { await handler.shutdown() }
    }

    @Test("A renewed certificate is used without a restart, once both files belong together")
    func renewed() async throws {
        let files = try Files()
        let receiver = try files.receiver()
        try files.issue("second")
        let handler = try handler(receiver, name: "first", files.tls)
        guard case .retry(_, let failure) = await verdict(handler) else {
            Issue.record("the endpoint does not tell names apart")
            return
        }
        #expect(failure.group == "webhook status 403")
        try files.issue("first")
        try await waitUntil { await verdict(handler) == .done }
        await handler.shutdown()
    }

    @Test("Files that are seen half replaced change nothing, until they are whole")
    func halfReplaced() throws {
        let files = try Files()
        try files.issue("first")
        let trust = try WebhookTrust(files.tls, host: "endpoint.invalid")
        func later(_ seconds: Int) -> WebhookTrust.Current { trust.current(now: .now + .seconds(seconds)) }
        #expect(later(2).generation == 0 && later(2).problem == nil)
        try files.issue("second", key: false)
        #expect(later(10).generation == 0)
        #expect(later(20).problem?.contains("is not that of the first certificate") == true)
        try files.issue("third")
        #expect(later(20).generation == 0, "not looked at again within a second")
        #expect(later(30).generation == 1 && later(30).problem == nil)
        try FileManager.default.removeItem(atPath: files.path("client.key"))
        #expect(later(40).generation == 1 && later(40).problem?.contains("client.key") == true)
    }

    @Test("Files that can't be used are refused at startup, by name and without their content")
    func refusedAtTheStart() throws {
        let files = try Files()
        try files.issue("first")
        try files.write(Array("FAKE-s3cret".utf8), as: "rubbish")
        var cases: [(WebhookTLSFiles, String)] = []
        for path in [files.path("nowhere"), files.path("rubbish"), files.path("client.pem")] {
            cases.append((WebhookTLSFiles(certificate: files.path("client.pem"), key: path), path))
        }
        for path in [files.path("nowhere"), files.path("rubbish"), files.path("client.key")] {
            cases.append((WebhookTLSFiles(certificate: path, key: files.path("client.key")), path))
        }
        cases.append(
            (
                WebhookTLSFiles(certificate: files.path("client.pem"), key: files.path("server.key")),
                files.path("server.key")
            )
        )
        for (tls, path) in cases {
            let error = #expect(throws: FileError.self, "\(tls)") { try WebhookTrust(tls, host: "endpoint.invalid") }
            #expect(error?.message.contains(path) == true, "\(error?.message ?? "-")")
            #expect(error?.message.contains("s3cret") == false)
        }
    }
}
