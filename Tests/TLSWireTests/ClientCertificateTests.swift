import Foundation
import NIOCore
import Testing

@testable import TLSWire

/// What a client shows to a server that asks for a certificate.
@Suite(.timeLimit(.minutes(5))) struct ClientCertificateTests {
    private static func client(_ issued: IssuedCertificate) throws -> TLSClientConfiguration {
        var client = try trusting()
        client.identity = TLSIdentity(issued)
        return client
    }

    @Test(
        "OpenSSL's own server, which insists on a certificate, gets ours and trusts it",
        arguments: ["-tls1_2", "-tls1_3"]
    )
    func shown(_ version: String) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let trust = folder.appending(path: "ca.pem")
        try Data(authority.get().certificatePEM).write(to: trust)
        let server = try ForeignServer([version, "-Verify", "1", "-verify_return_error", "-CAfile", trust.path])
        defer { server.stop() }
        let request = CertificateRequest(
            otherNames: [.xmppAddress("user@chat.example")],
            isClient: true,
            commonName: "the worker"
        )
        let connected = try await Connected.tls(server.port, Self.client(try authority.get().issue(request)))
        try await connected.established()
        try await server.wait(for: "subject=CN = the worker")
        try await server.wait(for: "verify return:1")
        try await connected.channel.close().get()
    }

    @Test("a key of another certificate, and files that hold neither, are errors of the configuration")
    func misconfigured() throws {
        let (one, two) = try (
            authority.get().issue(CertificateRequest(isClient: true, commonName: "one")),
            authority.get().issue(CertificateRequest(isClient: true, commonName: "two"))
        )
        let rows: [(IssuedCertificate, String)] = [
            (IssuedCertificate(chainPEM: one.chainPEM, keyPEM: two.keyPEM), "tls.client_key_file does not belong to"),
            (
                IssuedCertificate(chainPEM: one.keyPEM, keyPEM: one.keyPEM),
                "tls.client_certificate_file holds no certificate"
            ),
            (IssuedCertificate(chainPEM: one.chainPEM, keyPEM: one.chainPEM), "tls.client_key_file holds no usable"),
        ]
        for (issued, words) in rows {
            let error = try #require(throws: TLSError.self) { try TLSContext.client(Self.client(issued)) }
            #expect(error.code == .misconfigured && error.message.contains(words), "\(error.message)")
            #expect(!error.message.contains("PRIVATE"))
        }
    }

    @Test("the end of the certificate's validity is known")
    func end() throws {
        func end(_ validity: ClosedRange<Int>) throws -> Int? {
            let issued = try authority.get().issue(
                CertificateRequest(isClient: true, commonName: "x", validity: validity)
            )
            return try TLSContext.client(Self.client(issued)).certificateEnd
        }
        let seconds = try #require(try end(-3_600...86_400))
        #expect((86_300...86_400).contains(seconds))
        let past = try #require(try end(-7_200 ... -3_600))
        #expect((-3_700 ... -3_600).contains(past))
        #expect(try TLSContext.client(trusting()).certificateEnd == nil)
        // The same of a file's first certificate, without its key.
        let request = CertificateRequest(commonName: "x", validity: -7_200 ... -3_600)
        let expired = try CertificateEnd.remaining(.pem(try authority.get().issue(request).chainPEM))
        #expect((-3_700 ... -3_600).contains(expired))
        #expect(throws: TLSError.self) { try CertificateEnd.remaining(.pem(Array("no certificate".utf8))) }
    }
}
