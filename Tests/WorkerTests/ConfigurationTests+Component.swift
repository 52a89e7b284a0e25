import ConfigurationKeys
import Foundation
import Testing
import XMPP

@testable import UpstreamConfiguration

/// External components.
extension ConfigurationTests {
    private var component: String {
        "database: {url: 'postgresql:///upstream'}\nsenders:\n"
            + "  - {sender_id: up, host: 127.0.0.1, secret_file: SECRET, dialect: component}\n"
    }

    /// The component's configuration with more keys.
    private func with(_ more: String) -> String { component.replacing("component}", with: "component, \(more)}") }

    @Test("a component has its own defaults: port, one connection, and whose messages are taken")
    func componentDefaults() throws {
        let sender = try read(with("domain: upstream.example.com")).senders[0]
        #expect(sender.dialect == .component && sender.port == 5347 && sender.connections == 1)
        #expect(sender.tlsMode == .direct && sender.clearNetworks.isEmpty && sender.serverName == "127.0.0.1")
        #expect(sender.domain == "upstream.example.com")
        #expect(sender.stream.trustedFrom == ["example.com", "*@example.com"])
        let other = try read(with("domain: a.b, port: 5, connections: 3, trusted_from: [c@d]")).senders[0]
        #expect(other.port == 5 && other.connections == 3 && other.stream.trustedFrom == ["c@d"])
    }

    @Test("a component's domain is sent as servers prepare it")
    func componentDomains() throws {
        for (written, sent, parent) in [
            ("UPSTREAM.Example.com", "upstream.example.com", "example.com"),
            ("upstream.example.com.", "upstream.example.com", "example.com"),
            ("Upstream.BÜCHER.example", "upstream.bücher.example", "bücher.example"),
            ("up.localhost", "up.localhost", "localhost"),
        ] {
            let sender = try read(with("domain: \(written)")).senders[0]
            #expect(sender.domain == sent && sender.stream.trustedFrom == [parent, "*@\(parent)"])
            // The server's domain in both spellings, and never the component's own.
            #expect(sender.trustedSpellings.allSatisfy { !$0.contains("upstream.") && !$0.contains("up.") })
            #expect(sender.trustedSpellings.count == (parent.utf8.contains { $0 > 0x7F } ? 4 : 2))
        }
    }

    @Test(
        "what a component can't have is refused with the reason",
        arguments: [
            ("", "senders.0.domain", "is required"), ("domain: 192.0.2.1", "senders.0.domain", "not an address"),
            ("domain: upstream", "senders.0.trusted_from", "*@example.com"),
            ("domain: a.b, trusted_from: []", "senders.0.trusted_from", "must name"),
            ("domain: a.b, username: jid", "senders.0.username", "no account"),
            ("domain: a.b, resume: 1m", "senders.0.resume", "no account"),
            ("domain: a.b, resource: x", "senders.0.resource", "no account"),
            ("domain: a.b, priority: 5", "senders.0.priority", "no account"),
            ("domain: a.b, allow_plain: true", "senders.0.allow_plain", "no account"),
            ("domain: a.b, tls: {mode: starttls}", "senders.0.tls.mode", "from the first byte"),
            (
                "domain: a.b, tls: {allow_clear_networks: [10.0.0.0/8]}", "senders.0.tls.allow_clear_networks",
                "mode: none"
            ),
            ("domain: a.b, tls: {mode: none, allow_clear_networks: [10.0.0.0]}", "allow_clear_networks", "10.0.0.0/8"),
        ]
    )
    func componentProblems(_ more: String, _ key: String, _ word: String) {
        let found = problems(more.isEmpty ? component : with(more))
        #expect(found.count == 1 && found[0].contains(key) && found[0].contains(word), "\(found)")
    }

    @Test("clear text is a component's alone, and an address outside of what is allowed is found at once")
    func clearText() throws {
        let none = "domain: a.b, tls: {mode: none}"
        #expect(try read(with(none)).senders[0].tlsMode == .none)
        for (host, more, isGood) in [
            ("127.0.0.1", none, true), ("::1", none, true), ("xmpp.internal", none, true), ("10.0.0.1", none, false),
            ("10.0.0.1", "domain: a.b, tls: {mode: none, allow_clear_networks: [10.0.0.0/8]}", true),
            ("192.0.2.1", "domain: a.b, tls: {mode: none, allow_clear_networks: [10.0.0.0/8]}", false),
        ] {
            let found = problems(with(more).replacing("host: 127.0.0.1", with: "host: '\(host)'"))
            #expect(found.isEmpty == isGood && found.allSatisfy { $0.contains("senders.0.host") }, "\(found)")
        }
        for dialect in ["ccs", "xmpp"] {
            let found = problems(with(none).replacing("dialect: component", with: "dialect: \(dialect)"))
            #expect(found.count == 1 && found[0].contains("senders.0.tls.mode"), "\(found)")
        }
    }

    @Test("several connections of a component are warned of: they work with one server and not with the other")
    func componentConnections() throws {
        let yaml = with("domain: a.b, connections: 2").replacing("SECRET", with: folder.secret)
        let warnings = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "worker.yaml").warnings
        #expect(warnings.map(\.key) == ["senders.0.connections"])
        #expect(warnings[0].message.contains("Prosody") && warnings[0].message.contains("at random"))
    }
}
