import XMLWire

/// Answers the queries of others (RFC 6120 section 8.2.3: each get and set must be answered).
///
/// | query | from the server, our account, or a trusted sender | from anybody else |
/// |---|---|---|
/// | ping (XEP-0199) | a result | a result |
/// | version (XEP-0092), discovery (XEP-0030) | what we are, never the operating system | `service-unavailable` |
/// | no child or several, an unknown type | `bad-request` | `bad-request` |
/// | everything else | `service-unavailable` | `service-unavailable` |
///
/// Answers to anybody but the server are limited (``Allowance``): strangers can neither flood others nor crowd out
/// acks.
struct QueryResponder: Sendable {
    enum Asker {
        /// The server itself, or our own account: unlimited, since a server ends the stream of a client that does not
        /// answer it.
        case server
        case trusted
        case stranger
    }

    /// A limit on answers, refilled over time.
    private struct Allowance {
        static let burst: UInt64 = 50
        /// The nanoseconds per refilled answer.
        static let interval: UInt64 = 100_000_000

        private var used: UInt64 = 0
        private var since: UInt64

        init(now: UInt64) { since = now }

        mutating func take(now: UInt64) -> Bool {
            let earned = now > since ? (now - since) / Allowance.interval : 0
            since += earned * Allowance.interval
            used -= min(used, earned)
            guard used < Allowance.burst else { return false }
            if used == 0 { since = now }
            used += 1
            return true
        }
    }

    /// The longest id that is echoed, in bytes.
    static let idLimit = 1_024

    private let version: String
    /// Our domain if we are a component, whose answers need both addresses (XEP-0114 section 3).
    private let component: ComponentDomain?
    private var trusted: Allowance
    private var strangers: Allowance

    /// A responder for one stream, which for a component answers as its domain.
    init(version: String, as component: ComponentDomain? = nil, now: UInt64) {
        self.version = version
        self.component = component
        trusted = Allowance(now: now)
        strangers = Allowance(now: now)
    }

    /// The answer to an IQ; nil if none is due: to results, errors, IQs without an id, and beyond the limit.
    mutating func reply(to stanza: Stanza, from asker: Asker, now: UInt64) -> [UInt8]? {
        guard stanza.element(0, is: "iq", in: XMLNamespace.client), let id = stanza.attribute("id", of: 0),
            !id.isEmpty, id.count <= QueryResponder.idLimit
        else { return nil }
        let type = stanza.attribute("type", of: 0)
        if let type, stanza.equals(type, "result") || stanza.equals(type, "error") { return nil }
        if component != nil, stanza.attribute("from", of: 0) == nil { return nil }
        guard mayAnswer(asker, now: now) else { return nil }
        switch body(of: stanza, type: type, isKnown: asker != .stranger) {
        case .result(let content):
            let bytes = start("result", of: stanza, id: id)
            return bytes + (content.isEmpty ? Array("/>".utf8) : Array(">".utf8) + content + Array("</iq>".utf8))
        case .error(let kind, let condition):
            let element = "<\(condition) xmlns=\"\(XMLNamespace.stanzaErrors)\"/>"
            return start("error", of: stanza, id: id) + "><error type=\"\(kind)\">\(element)</error></iq>".utf8
        }
    }

    private mutating func mayAnswer(_ asker: Asker, now: UInt64) -> Bool {
        switch asker {
        case .server: true
        case .trusted: trusted.take(now: now)
        case .stranger: strangers.take(now: now)
        }
    }

    // MARK: The answers

    private enum Body {
        case result([UInt8])
        case error(StaticString, StaticString)
    }

    private func body(of stanza: Stanza, type: Range<Int>?, isKnown: Bool) -> Body {
        let isGet = type.map { stanza.equals($0, "get") } ?? false
        let isSet = type.map { stanza.equals($0, "set") } ?? false
        var children = stanza.children().makeIterator()
        guard isGet || isSet, let child = children.next(), children.next() == nil else {
            return .error("modify", "bad-request")
        }
        if isGet, stanza.element(child, is: "ping", in: XMLNamespace.ping) { return .result([]) }
        guard isGet, isKnown else { return .error("cancel", "service-unavailable") }
        if stanza.element(child, is: "query", in: XMLNamespace.version) { return .result(softwareVersion) }
        let isInfo = stanza.element(child, is: "query", in: XMLNamespace.discoveryInfo)
        guard isInfo || stanza.element(child, is: "query", in: XMLNamespace.discoveryItems) else {
            return .error("cancel", "service-unavailable")
        }
        // XEP-0030 section 3.2: we have no nodes.
        guard stanza.attribute("node", of: child) == nil else { return .error("cancel", "item-not-found") }
        return .result(Array((isInfo ? information : QueryResponder.items).utf8))
    }

    /// Our description (XEP-0030; the identity is one of the registry's, `client/bot` or `component/generic`).
    private var information: String {
        let kind = component == nil ? "category=\"client\" type=\"bot\"" : "category=\"component\" type=\"generic\""
        let features = [
            XMLNamespace.discoveryInfo, XMLNamespace.discoveryItems, XMLNamespace.version, XMLNamespace.ping,
        ].map { "<feature var=\"\($0)\"/>" }.joined()
        return "<query xmlns=\"\(XMLNamespace.discoveryInfo)\">"
            + "<identity \(kind) name=\"upstream-worker\"/>\(features)</query>"
    }

    private static var items: String { "<query xmlns=\"\(XMLNamespace.discoveryItems)\"/>" }

    private var softwareVersion: [UInt8] {
        let version = "<version>\(version.xmlEscaped)</version>"
        return Array("<query xmlns=\"\(XMLNamespace.version)\"><name>upstream-worker</name>\(version)</query>".utf8)
    }

    private func start(_ type: StaticString, of stanza: Stanza, id: Range<Int>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<iq type=\"")
        bytes.append(xml: type)
        bytes.append(xml: "\" id=\"")
        bytes.append(escaping: stanza.bytes[id])
        if let from = stanza.attribute("from", of: 0), from.count <= 3 * QueryResponder.idLimit {
            bytes.append(xml: "\" to=\"")
            bytes.append(escaping: stanza.bytes[from])
        }
        if let component {
            bytes.append(xml: "\" from=\"")
            bytes += component.sender(answering: stanza.attribute("to", of: 0).map { stanza.bytes[$0] })
        }
        bytes.append(xml: "\"")
        return bytes
    }
}
