import ConfigurationKeys
import Foundation
import Testing
import XMPP

@testable import UpstreamConfiguration

/// Names and addresses of senders.
extension ConfigurationTests {
    @Test("the standard dialect has its own defaults")
    func standardDialect() throws {
        let sender = try read(minimal, ["UPSTREAM_SENDERS__0__DIALECT": "xmpp"]).senders[0]
        #expect(sender.username == .localpart && sender.stream.trustedFrom.isEmpty && sender.connections == 1)
        let two = try ConfigurationLoader(environment: ["UPSTREAM_SENDERS__0__DIALECT": "xmpp"])
            .read(yaml: minimal.replacing("SECRET}", with: "\(folder.secret), connections: 2}"), path: "worker.yaml")
        #expect(two.configuration.senders[0].connections == 2)
        #expect(two.warnings.map(\.key) == ["senders.0.connections"])
    }

    @Test("the secret itself is sent to a CCS alone, unless the configuration says otherwise")
    func plain() throws {
        func isAllowed(_ more: String) throws -> Bool {
            try read(minimal.replacing("SECRET}", with: "SECRET\(more)}")).senders[0].stream.allowsPlain
        }
        #expect(try isAllowed("") && isAllowed(", dialect: xmpp, allow_plain: true"))
        #expect(try !isAllowed(", dialect: xmpp") && !isAllowed(", allow_plain: false"))
        let found = problems(minimal.replacing("SECRET}", with: "SECRET, allow_plain: perhaps}"))
        #expect(found.count == 1 && found[0].contains("true or false"), "\(found)")
    }

    @Test("a client certificate comes with its key, and stands in for the secret")
    func clientCertificate() throws {
        let tls = "client_certificate_file: SECRET, client_key_file: SECRET"
        let sender = try read(minimal.replacing("SECRET}", with: "SECRET, tls: {\(tls)}}")).senders[0]
        #expect(sender.clientCertificate?.file == "\(folder.secret)")
        #expect(sender.clientCertificate?.keyFile.path == "\(folder.secret)" && !sender.secretFile.path.isEmpty)
        let alone = try read(minimal.replacing("secret_file: SECRET}", with: "tls: {\(tls)}}")).senders[0]
        #expect(alone.clientCertificate != nil && alone.secretFile.path.isEmpty)
        #expect(try read(minimal).senders[0].clientCertificate == nil)
        for (more, key, words) in [
            ("client_certificate_file: SECRET", "client_certificate_file", "needs client_key_file"),
            ("client_key_file: SECRET", "client_key_file", "needs client_certificate_file"),
            ("client_certificate_file: SECRET, client_key_file: /nowhere/key", "client_key_file", "can't read"),
        ] {
            let found = problems(minimal.replacing("secret_file: SECRET}", with: "tls: {\(more)}}"))
            #expect(
                found.count == 1 && found[0].contains("senders.0.tls.\(key)") && found[0].contains(words),
                "\(found)"
            )
        }
        let neither = problems(minimal.replacing(", secret_file: SECRET}", with: "}"))
        #expect(neither.count == 1 && neither[0].contains("senders.0.secret_file: is required"), "\(neither)")
    }

    @Test("the certificate is for the host of a CCS, and for the domain of a standard server")
    func serverNames() throws {
        func name(_ more: String) throws -> String {
            try read(minimal.replacing("SECRET}", with: "SECRET\(more)}")).senders[0].serverName
        }
        #expect(try name(", domain: example.org") == "xmpp.example.com")
        #expect(try name(", domain: example.org, dialect: xmpp") == "example.org")
        #expect(try name(", dialect: xmpp") == "xmpp.example.com")
        #expect(try name(", domain: example.org, dialect: xmpp, tls: {server_name: other}") == "other")
    }

    @Test("a host that begins with a dot is refused: it would stand for every name below")
    func leadingDots() throws {
        for more in ["tls: {server_name: .example.com}", "domain: .example.com"] {
            let found = problems(minimal.replacing("SECRET}", with: "SECRET, \(more)}"))
            #expect(found.count == 1 && found[0].contains("a host name or an IP address"), "\(found)")
        }
    }

    @Test(
        "trusted_from takes XMPP addresses and nothing else",
        arguments: [
            ("a@b", true), ("devices@gcm.googleapis.com", true), ("gcm.googleapis.com", true), ("a@b/c", true),
            ("a@b/c d@e", true), ("ä@bücher.example", true), ("a@[::1]", true), ("a@192.0.2.1", true),
            ("example.org.", true),
            ("@b", false), ("a@", false), ("a@b/", false), ("a b@c", false), ("a@b c", false), ("a@b@c", false),
            ("a@.b", false), ("a@b..c", false), ("xmpp:a@b", false), ("https://b", false), ("a'@b", false),
            ("a&b@c", false), ("<a@b>", false), ("a:b@c", false), ("a@b,c@d", false), ("*", false), ("*@b", true),
            ("a@*.b", false), ("a@b/ ", false), ("a@b:5222", false), ("_x@b", true), ("a@b_c", false),
            ("*@b/c", false), ("x*@b", false), ("*x@b", false), ("**@b", false), ("*@", false), ("*@*", false),
        ]
    )
    func trustedAddresses(_ address: String, _ isGood: Bool) throws {
        let found = problems(minimal.replacing("SECRET}", with: "SECRET, trusted_from: [\"good@b\", \"\(address)\"]}"))
        #expect(found.isEmpty == isGood, "\(found)")
        guard let problem = found.first else { return }
        #expect(found.count == 1 && problem.contains("senders.0.trusted_from") && problem.contains("3"), "\(problem)")
        #expect(problem.contains("devices@example.org"), "\(problem)")
    }
}
