import ConfigurationKeys
import DNS
import TLSWire
import Testing
import Worker
import XMLWire
import XMPP
import XMPPSession

@testable import UpstreamConfiguration

/// Hosts, domains and accounts: what is found, and in which spelling.
extension ConfigurationTests {
    private func xmpp(_ more: String, id: String = "worker") -> String {
        "database: {url: 'postgresql:///upstream'}\nsenders:\n"
            + "  - {sender_id: \"\(id)\", secret_file: SECRET, dialect: xmpp\(more.isEmpty ? "" : ", ")\(more)}\n"
    }

    @Test("a standard server's host may be left out; then its domain says where it is")
    func foundHosts() throws {
        let sender = try read(xmpp("domain: example.org")).senders[0]
        #expect(sender.isFound && sender.host == "example.org" && sender.serverName == "example.org")
        let both = try SenderSettings(sender, index: 0, limits: StreamLimits())
        #expect(both.discovery?.direct != nil && both.discovery?.startTLS != nil)
        #expect(both.discovery?.domain == "example.org" && both.discovery?.nameServers == .system)
        #expect(both.discovery?.direct?.applicationProtocol == "xmpp-client")
        #expect(both.discovery?.startTLS?.applicationProtocol == nil)
        for (mode, isDirect) in [("direct", true), ("starttls", false)] {
            let sender = try read(xmpp("domain: example.org, tls: {mode: \(mode)}")).senders[0]
            let settings = try SenderSettings(sender, index: 0, limits: StreamLimits())
            #expect((settings.discovery?.direct != nil) == isDirect)
            #expect((settings.discovery?.startTLS != nil) == !isDirect)
        }
        // A host wins.
        let named = try read(xmpp("domain: example.org, host: h.example.net")).senders[0]
        #expect(!named.isFound && named.host == "h.example.net" && named.serverName == "example.org")
        #expect(try SenderSettings(named, index: 0, limits: StreamLimits()).discovery == nil)
    }

    @Test("what can't be found is said")
    func missingPlaces() {
        #expect(
            problems(xmpp("")).map { $0.contains("senders.0.domain: is required where no host is given") } == [true]
        )
        let port = problems(xmpp("domain: example.org, port: 5222"))
        #expect(port.count == 1 && port[0].contains("senders.0.port") && port[0].contains("service records"), "\(port)")
        let ccs = problems(xmpp("domain: example.org").replacing("dialect: xmpp", with: "dialect: ccs"))
        #expect(ccs.count == 1 && ccs[0].contains("senders.0.host: is required"), "\(ccs)")
        #expect(problems(xmpp("host: \"\", domain: example.org")).count == 1)
    }

    @Test("the name server of service records can be named")
    func nameServer() throws {
        let configuration = try read(xmpp("domain: example.org") + "dns: {server: \"127.0.0.1:5353\"}\n")
        #expect(configuration.nameServers == NameServers(address: "127.0.0.1", port: 5353))
        #expect(try read(xmpp("domain: example.org")).nameServers == .system)
        for bad in ["127.0.0.1", "localhost:53", "127.0.0.1:0", "127.0.0.1:65536", ":53", "1.2.3:53", "::1:53"] {
            #expect(problems(xmpp("domain: example.org") + "dns: {server: \"\(bad)\"}\n").count == 1, "\(bad)")
        }
    }

    @Test(
        "international domains are looked up and checked as A-labels, and are U-labels in addresses",
        arguments: [
            ("bücher.example", "bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.Example", "bücher.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "bücher.example", "xn--bcher-kva.example"),
            // Not the transitional ss (RFC 5894 section 7.2).
            ("straße.example", "straße.example", "xn--strae-oqa.example"),
            ("例え。テスト", "例え.テスト", "xn--r8jz45g.xn--zckzah"),
            // A-labels stay, for a server that was configured with them.
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example", "xn--bcher-kva.example"),
        ]
    )
    func internationalDomains(_ given: String, _ address: String, _ ascii: String) throws {
        let sender = try read(xmpp("domain: \"\(given)\"")).senders[0]
        #expect(Array(sender.domain.utf8) == Array(address.utf8) && sender.domainInASCII == ascii)
        #expect(sender.serverName == ascii && sender.host == ascii)
        let settings = try SenderSettings(sender, index: 0, limits: StreamLimits())
        #expect(settings.stream.domain == sender.domain && settings.discovery?.domain == ascii)
        let named = try read(xmpp("domain: example.org, host: \"\(given)\"")).senders[0]
        #expect(named.host == ascii)
    }

    @Test(
        "names that no name server can be asked about are refused",
        arguments: [
            "a..b", "bücher..example", "bü cher.example", "bü/cher", "u@bücher.example", "bü:5222", "bü%20.example",
            "\u{378}.example", "a\u{200d}b.example", String(repeating: "ü", count: 64) + ".example",
            String(repeating: "a", count: 64) + ".example", "https://bücher.example", "a:b", "[::1]",
        ]
    )
    func badDomains(_ name: String) {
        for key in ["domain", "host", "tls"] {
            let value = key == "tls" ? "tls: {server_name: \"\(name)\"}, host: h" : "\(key): \"\(name)\""
            let more = key == "host" ? ", domain: example.org" : ""
            let found = problems(xmpp(value + more))
            #expect(found.count == 1 && found[0].contains("a host name or an IP address"), "\(key): \(found)")
        }
    }

    @Test("trusted addresses are known in every spelling of their domains, and so is our own domain")
    func spellings() throws {
        let trusted = "trusted_from: [\"devices@xn--bcher-kva.example\", \"bücher.example\", \"a@plain.example/r\"]"
        let sender = try read(xmpp("domain: straße.example, \(trusted)")).senders[0]
        #expect(
            Set(sender.trustedSpellings)
                == [
                    "devices@xn--bcher-kva.example", "devices@bücher.example", "bücher.example",
                    "xn--bcher-kva.example",
                    "a@plain.example/r", "xn--strae-oqa.example",
                ]
        )
        #expect(try read(xmpp("domain: example.org")).senders[0].trustedSpellings == [])
    }

    @Test("every account of a standard server can be a sender; a CCS's ids stay what they were")
    func accounts() throws {
        for id in [
            "worker", "Worker", "a+b", "first.last", "o\\\\27brien", "1%", "x!#$*?^`{|}~=,;()[]", "zoë", "работник",
            "工人",
            String(repeating: "a", count: 1_023),
        ] {
            #expect(problems(xmpp("domain: example.org", id: id)).isEmpty, "\(id)")
        }
        for id in [
            "", "a b", "a@b", "a/b", "a:b", "a'b", "a&b", "<a>", "a\\\"b", "a\\u0001", "a\u{2028}b", "\u{1f600}",
            String(repeating: "a", count: 1_024), "ZOË", "zoe\u{308}", "ｗｏｒｋｅｒ",
        ] {
            #expect(problems(xmpp("domain: example.org", id: id)).count == 1, "\(id)")
        }
        let wide = problems(xmpp("domain: example.org", id: "ZOË"))
        #expect(wide.first?.contains("such as 'zoë'") == true, "\(wide)")
        let long = String(repeating: "a", count: 65)
        for id in [long, "a+b", "zoë"] {
            #expect(problems(minimal.replacing("sender_id: '1'", with: "sender_id: '\(id)'")).count == 1, "\(id)")
        }
    }

    @Test("JSON containers, their answers and fall-backs")
    func payloads() throws {
        let plain = try read(xmpp("domain: example.org")).senders[0]
        #expect(plain.stream.payload == .gcm)
        #expect(try read(xmpp("domain: example.org, payload: json")).senders[0].stream.payload == .plain(.strict))
        let all =
            "domain: example.org, payload: json, ack: receipt, id_scope: device, fallback: {message_id: stanza_id, "
            + "from: sender, category_from: localpart, category: com.example.app}"
        let sender = try read(xmpp(all)).senders[0]
        var expected = PlainPayload.strict
        expected.ack = .receipt
        expected.messageID = .stanzaID
        expected.from = .sender
        expected.categoryFrom = .localpart
        expected.category = "com.example.app"
        #expect(sender.stream.payload == .plain(expected))
        #expect(try SenderSettings(sender, index: 0, limits: StreamLimits()).stream.payload == sender.stream.payload)
        for (more, key) in [
            ("ack: json", "ack"), ("fallback: {from: sender}", "fallback"), ("payload: xml", "payload"),
            ("payload: json, ack: both", "ack"), ("payload: json, fallback: {message_id: id}", "fallback.message_id"),
            ("payload: json, fallback: {category: \"\(String(repeating: "c", count: 256))\"}", "fallback.category"),
        ] {
            let found = problems(xmpp("domain: example.org, \(more)"))
            #expect(found.count == 1 && found[0].contains("senders.0.\(key):"), "\(more): \(found)")
        }
        let fallback = "fallback: {message_id: server_id, category_from: subject}"
        let several = try read(xmpp("domain: example.org, payload: [gcm, json, body], body_json: true, \(fallback)"))
        func forms(of sender: SenderConfiguration) throws -> PlainPayload {
            let found: PlainPayload? = if case .plain(let plain) = sender.stream.payload { plain } else { nil }
            return try #require(found)
        }
        let given = try forms(of: several.senders[0])
        #expect(given.forms == [.gcm, .json, .body] && given.readsJSON && given.ack == .json && given.category == nil)
        #expect(given.messageID == .serverID && given.categoryFrom == .subject)
        let event = try forms(of: read(xmpp("domain: example.org, payload: event, id_scope: device")).senders[0])
        #expect(event.forms == [.event] && event.ack == .receipt && event.messageID == .none)
        for (more, key) in [
            ("payload: body, fallback: {category: c}", "fallback.message_id"),
            ("payload: stanza, fallback: {message_id: origin_id}", "fallback"),
            ("payload: body, ack: json, \(fallback)", "ack"), ("payload: event, ack: receipt", "ack"),
            ("payload: body, ack: displayed, \(fallback)", "ack"), ("payload: json, body_json: true", "body_json"),
            ("body_json: true", "body_json"), ("payload: []", "payload"), ("payload: [json, json]", "payload"),
            ("payload: [json, xml]", "payload.1"), ("payload: [stanza, body], \(fallback)", "payload"),
        ] {
            let found = problems(xmpp("domain: example.org, \(more)"))
            #expect(found.count == 1 && found[0].contains("senders.0.\(key):"), "\(more): \(found)")
        }
        let ccs = problems(minimal.replacing("SECRET}", with: "SECRET, payload: json}"))
        #expect(ccs.count == 1 && ccs[0].contains("senders.0.payload"), "\(ccs)")
    }

    @Test("ids that come from devices' libraries call for a scope of the device")
    func scopeWarning() throws {
        let yaml = xmpp("domain: example.org, payload: json, fallback: {message_id: origin_id}")
            .replacing("SECRET", with: folder.secret)
        #expect(
            try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "w").warnings.map(\.key) == [
                "senders.0.id_scope"
            ]
        )
        for (payload, keys) in [
            ("event", ["senders.0.id_scope"]), ("event, id_scope: device", []),
            ("body, fallback: {message_id: sender_stanza_id, category: c}", []),
            ("body, ack: none, dialect: component, fallback: {message_id: server_id, category: c}", ["senders.0.ack"]),
        ] {
            let yaml = xmpp("domain: w.example.org, host: localhost, payload: \(payload)")
                .replacing("SECRET", with: folder.secret)
                .replacing(payload.contains("dialect") ? "dialect: xmpp, " : "nothing", with: "")
            let warnings = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "w").warnings
            #expect(warnings.map(\.key) == keys, "\(payload)")
        }
    }
}
