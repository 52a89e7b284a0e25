import Foundation
import NIOCore
import Testing

@testable import TLSWire

/// Certificates that name an XMPP domain in the ways that OpenSSL does not compare.
@Suite(.timeLimit(.minutes(5))) struct XMPPCertificateNameTests {
    private static let service = "1.3.6.1.5.5.7.8.7"
    private static let address = "1.3.6.1.5.5.7.8.5"

    /// A handshake with a server of this certificate; nil where it is accepted.
    private static func refusal(
        _ request: CertificateRequest,
        domain: String? = "chat.example",
        unicode: String? = nil,
        name: String = "chat.example"
    ) async throws -> TLSError.Code? {
        let listener = try await Listener.tls(serving(request))
        var client = try trusting(name)
        client.xmppDomain = domain.map { (ascii: $0, unicode: unicode ?? $0) }
        let connected = try await Connected.tls(listener.port, client)
        try await connected.wait("established or an error") { !$0.established.isEmpty || !$0.errors.isEmpty }
        let seen = connected.recorder.seen
        try? await connected.channel.close().get()
        try await listener.stop()
        #expect(seen.established.isEmpty == !seen.codes.isEmpty)
        return seen.codes.first
    }

    @Test("an SRV-ID or an XmppAddr of the domain stands for a DNS name, whatever its case, beside other names")
    func accepted() async throws {
        let others: [[OtherName]] = [
            [.service("_xmpp-client.chat.example")], [.service("_XMPP-Client.Chat.Example")],
            [.xmppAddress("chat.example")], [.xmppAddress("CHAT.example")],
            [.service("_xmpp-server.chat.example"), .xmppAddress("other.example"), .xmppAddress("chat.example")],
        ]
        for names in others {
            #expect(try await Self.refusal(CertificateRequest(otherNames: names)) == nil, "\(names)")
            let mixed = CertificateRequest(dnsNames: ["host.example"], addresses: ["192.0.2.1"], otherNames: names)
            #expect(try await Self.refusal(mixed) == nil, "\(names)")
        }
        // A DNS name goes on to be enough, its wildcard too.
        #expect(try await Self.refusal(CertificateRequest(dnsNames: ["chat.example"])) == nil)
        let wildcard = CertificateRequest(dnsNames: ["*.chat.example"])
        #expect(try await Self.refusal(wildcard, domain: "a.chat.example", name: "a.chat.example") == nil)
        #expect(try await Self.refusal(CertificateRequest(otherNames: others[0]), name: "chat.example.") == nil)
    }

    /// OpenSSL's own tool makes the certificates: ours takes names in ASCII alone.
    @Test(
        "an XmppAddr may have U-labels, an SRV-ID has A-labels",
        arguments: [
            ("5", "UTF8", "b\u{fc}cher.example", true), ("5", "UTF8", "xn--bcher-kva.example", true),
            ("7", "IA5", "_xmpp-client.xn--bcher-kva.example", true), ("5", "UTF8", "b\u{fd}cher.example", false),
            ("7", "UTF8", "_xmpp-client.b\u{fc}cher.example", false),
        ]
    )
    func international(_ type: String, _ encoding: String, _ name: String, _ isAccepted: Bool) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let paths = ["o.cnf", "c.pem", "k.pem"].map { folder.appending(path: $0).path }
        let options =
            "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n[dn]\nCN = x\n[ext]\n"
            + "subjectAltName = @names\n[names]\notherName.1 = 1.3.6.1.5.5.7.8.\(type);FORMAT:UTF8,\(encoding):\(name)\n"
        try options.write(toFile: paths[0], atomically: true, encoding: .utf8)
        _ = try openssl([
            "req", "-x509", "-config", paths[0], "-newkey", "rsa:2048", "-nodes", "-keyout", paths[2], "-out", paths[1],
        ])
        let server = try ForeignServer(["-cert", paths[1], "-key", paths[2]])
        defer { server.stop() }
        var client = TLSClientConfiguration(serverName: "xn--bcher-kva.example", caFile: paths[1])
        client.xmppDomain = (ascii: "xn--bcher-kva.example", unicode: "b\u{fc}cher.example")
        let connected = try await Connected.tls(server.port, client)
        try await connected.wait("established or an error") { !$0.established.isEmpty || !$0.errors.isEmpty }
        #expect(connected.recorder.seen.codes == (isAccepted ? [] : [.hostnameMismatch]))
        try? await connected.channel.close().get()
    }

    @Test("another service, another domain, a wildcard, an account, and a name of the wrong type match nothing")
    func refused() async throws {
        let names: [OtherName] = [
            .service("_xmpp-server.chat.example"), .service("_imap.chat.example"), .service("chat.example"),
            .service("_xmpp-client.other.example"), .service("_xmpp-client.*.example"),
            .service("_xmpp-client.chat.example.evil"), .service("_xmpp-client.sub.chat.example"),
            .xmppAddress("other.example"), .xmppAddress("*.example"), .xmppAddress("user@chat.example"),
            .xmppAddress("sub.chat.example"), .xmppAddress("_xmpp-client.chat.example"),
            // The right words in the wrong kind of string, and the wrong type of name.
            OtherName(type: Self.service, encoding: "UTF8", value: "_xmpp-client.chat.example"),
            OtherName(type: Self.address, encoding: "IA5STRING", value: "chat.example"),
            OtherName(type: Self.address, encoding: "PRINTABLESTRING", value: "chat.example"),
            OtherName(type: "1.3.6.1.5.5.7.8.3", encoding: "UTF8", value: "chat.example"),
            OtherName(type: "1.3.6.1.4.1.311.20.2.3", encoding: "UTF8", value: "chat.example"),
        ]
        for name in names {
            let request = CertificateRequest(otherNames: [name], commonName: "chat.example")
            #expect(try await Self.refusal(request) == .hostnameMismatch, "\(name)")
        }
        #expect(try await Self.refusal(CertificateRequest(commonName: "chat.example")) == .hostnameMismatch)
    }

    @Test("without a domain to look for the names count for nothing, and they make up for nothing else")
    func onlyForNames() async throws {
        let request = CertificateRequest(otherNames: [.xmppAddress("chat.example")])
        #expect(try await Self.refusal(request, domain: nil) == .hostnameMismatch)
        #expect(try await Self.refusal(request, domain: "other.example") == .hostnameMismatch)
        // An address is compared with the IP names alone.
        #expect(try await Self.refusal(request, name: "127.0.0.1") == .hostnameMismatch)
        var expired = request
        expired.validity = -7_200 ... -3_600
        #expect(try await Self.refusal(expired) == .expired)
        let own = TLSServerConfiguration(try CertificateAuthority.selfSigned(request))
        let listener = try await Listener.tls(own)
        var client = try trusting("chat.example")
        client.xmppDomain = (ascii: "chat.example", unicode: "chat.example")
        let connected = try await Connected.tls(listener.port, client)
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.codes == [.selfSigned])
        try await listener.stop()
    }
}
