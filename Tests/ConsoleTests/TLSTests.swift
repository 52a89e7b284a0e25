import ConfigurationKeys
import ConsoleSupport
import Foundation
import HTTPWire
import IntegrationSupport
import NIOCore
import NIOHTTP1
import TLSWire
import Testing
import UpstreamConfiguration

@testable import Console

@Suite struct TLSTests {
    @Test("with a certificate it serves TLS alone, with a cookie and a policy for TLS")
    func serves() async throws {
        let folder = try TemporaryFolder()
        let authority = try CertificateAuthority()
        let issued = try authority.issue(CertificateRequest(dnsNames: ["localhost"], addresses: ["127.0.0.1"]))
        let certificate = ConsoleTLSConfiguration(
            certificateFile: try folder.write(issued.chainPEM, as: "chain.pem"),
            keyFile: SecretFile(path: try folder.write(issued.keyPEM, as: "key.pem"))
        )
        var rules = ConsoleAccess.Settings()
        rules.isTLS = true
        var limits = ConsoleLimits()
        limits.idle = .seconds(5)
        let roots = authority.certificatePEM
        try await ConsoleHarness.run(rules: rules, limits: limits, certificate: certificate) { console in
            let link = console.access.oneTimePath(for: Principal(name: "x", role: .viewer), lifetime: .seconds(60))
            let endpoint = try #require(HTTPEndpoint("https://127.0.0.1:\(console.port)\(link)"))
            var tls = TLSClientConfiguration(serverName: "127.0.0.1")
            tls.trust = .pem(roots)
            let client = HTTPClient(endpoint, connectTimeout: .seconds(10))
            let address = try #require(endpoint.address)
            let target = HTTPClient.Target(address, tls: try TLSContext.client(tls))
            let reply = try await client.send(HTTPRequest(.GET, link), to: target, until: .now + .seconds(20))
            client.shutdown()
            let policy = reply.headers["Strict-Transport-Security"]
            let cookie = reply.headers["Set-Cookie"].first ?? ""
            for version in ["-tls1_2", "-tls1_3"] { #expect(try Self.speaks(console.port, version)) }
            let old = try Self.speaks(console.port, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0")
            #expect(policy == ["max-age=31536000"] && !old)
            #expect(cookie.hasPrefix("__Host-upstream-session=") && cookie.hasSuffix("; Secure"))
            let clear = try RawConnection.exchange(console.port, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(clear?.contains("HTTP/1.1") == false)
            // Who says nothing is cut off before the handshake, too.
            #expect(try RawConnection(console.port).readToEnd() == "")
        }
    }

    @Test("a key that is not the certificate's is refused at the start")
    func mismatch() throws {
        let folder = try TemporaryFolder()
        let request = CertificateRequest(dnsNames: ["localhost"])
        let (one, other) = (try CertificateAuthority().issue(request), try CertificateAuthority().issue(request))
        let files = ConsoleTLSConfiguration(
            certificateFile: try folder.write(one.chainPEM, as: "chain.pem"),
            keyFile: SecretFile(path: try folder.write(other.keyPEM, as: "key.pem"))
        )
        #expect(throws: ConsoleError.self) { _ = try ConsoleServer.tls(files) }
    }

    @Test("with an RSA key, too, only what has forward secrecy is spoken")
    func forwardSecrecy() async throws {
        let folder = try TemporaryFolder()
        let (chain, key) = (try folder.write([], as: "chain.pem"), try folder.write([], as: "key.pem"))
        let maker = Process()
        maker.executableURL = URL(filePath: "/usr/bin/openssl")
        maker.arguments =
            ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", chain]
        maker.standardError = FileHandle.nullDevice
        try maker.run()
        maker.waitUntilExit()
        let certificate = ConsoleTLSConfiguration(certificateFile: chain, keyFile: SecretFile(path: key))
        try await ConsoleHarness.run(certificate: certificate) { console in
            for (ciphers, isSpoken) in [("AES128-GCM-SHA256:AES256-SHA", false), ("ECDHE+AESGCM", true)] {
                let spoken = try Self.speaks(console.port, "-tls1_2", "-cipher", ciphers)
                #expect(spoken == isSpoken, "\(ciphers)")
            }
        }
    }

    /// Whether OpenSSL's client, with these options, completes a handshake.
    private static func speaks(_ port: Int, _ options: String...) throws -> Bool {
        let client = Process()
        client.executableURL = URL(filePath: "/usr/bin/openssl")
        client.arguments = ["s_client", "-connect", "127.0.0.1:\(port)"] + options
        client.standardInput = FileHandle.nullDevice
        client.standardOutput = FileHandle.nullDevice
        client.standardError = FileHandle.nullDevice
        try client.run()
        client.waitUntilExit()
        return client.terminationStatus == 0
    }
}
