import Foundation
import TLSWire
import Testing
import UpstreamKit

@testable import Handlers

/// The certificate of a webhook's endpoint, against a TLS server that is not ours.
@Suite(.serialized, .timeLimit(.minutes(3))) struct WebhookTLSTests {
    /// Files that go away with their owner.
    private final class Folder: Sendable {
        let url = URL(fileURLWithPath: "/tmp/upstream-webhook-tls-\(UUID().uuidString)")

        init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

        deinit { try? FileManager.default.removeItem(at: url) }

        func write(_ bytes: [UInt8], as name: String) throws -> String {
            let file = url.appendingPathComponent(name)
            try Data(bytes).write(to: file)
            return file.path
        }
    }

    private func verdict(
        host: String = "endpoint.invalid",
        certificate: CertificateRequest = CertificateRequest(dnsNames: ["endpoint.invalid"]),
        trusting other: CertificateAuthority? = nil,
        usesFile: Bool = true
    ) async throws -> HandlerVerdict {
        let folder = try Folder()
        let authority = try CertificateAuthority()
        let issued = try authority.issue(certificate)
        let chain = try folder.write(issued.chainPEM, as: "chain.pem")
        let key = try folder.write(issued.keyPEM, as: "key.pem")
        let caFile = try folder.write((other ?? authority).certificatePEM, as: "ca.pem")
        let receiver = try WebhookReceiver(certificate: (chain, key))
        let handler = try WebhookHandler(
            options: WebhookHandler.Options(
                endpoint: try #require(WebhookEndpoint("https://\(host):\(receiver.port)/status?code=200")),
                timeout: .seconds(20),
                policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init)),
                connections: 1,
                caFile: usesFile ? caFile : nil
            ),
            resolver: AddressResolver { _ in ["127.0.0.1"].compactMap(NetworkAddress.init) }
        ) { [Array(WebhookReceiver.secret.utf8)] }
        let message = UpstreamMessage.sample(category: "c", data: "{}")
        let verdict = await HandlerVerdict.of(handler, message, HandlerContext(handler: "h"))
        await handler.shutdown()
        return verdict
    }

    private func isRefused(_ verdict: HandlerVerdict) -> Bool {
        guard case .retry(_, let failure) = verdict else { return false }
        return !failure.group.contains("status") && !failure.group.contains("timeout")
    }

    @Test func anAuthorityOfOnesOwnIsTrustedWhereItIsNamed() async throws {
        #expect(try await verdict() == .done)
        #expect(isRefused(try await verdict(usesFile: false)), "the system does not trust it")
        #expect(isRefused(try await verdict(trusting: try CertificateAuthority())), "another one does not vouch for it")
    }

    @Test func aCertificateForAnotherNameIsRefused() async throws {
        #expect(isRefused(try await verdict(host: "other.invalid")))
    }

    @Test func aCertificateThatHasExpiredIsRefused() async throws {
        let request = CertificateRequest(dnsNames: ["endpoint.invalid"], validFrom: -7200, validUntil: -3600)
        #expect(isRefused(try await verdict(certificate: request)))
    }

    @Test func aFileWithoutCertificatesIsRefusedAtTheStart() throws {
        let folder = try Folder()
        for (name, text) in [("empty.pem", ""), ("rubbish.pem", "not a certificate")] {
            let file = try folder.write(Array(text.utf8), as: name)
            #expect(throws: WebhookTrustError.self) { try WebhookTrust(caFile: file) }
        }
        #expect(throws: WebhookTrustError.self) { try WebhookTrust(caFile: "/nowhere/ca.pem") }
    }
}
