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
/// Answers to anybody but the server are limited (``Allowance``): strangers can't flood others or crowd out acks.
struct QueryResponder: Sendable {
    enum Asker {
        /// The server itself, or our own account: unlimited, since a server gives up clients that do not answer.
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
        let answer = answer(stanza, type: type, isKnown: asker != .stranger)
        var start = "<iq type=\"\(answer.type)\" id=\"\(stanza.string(id).xmlEscaped)\""
        if let from = stanza.attribute("from", of: 0), from.count <= 3 * QueryResponder.idLimit {
            start += " to=\"\(stanza.string(from).xmlEscaped)\""
        }
        if let component {
            let to = stanza.attribute("to", of: 0).map { stanza.bytes[$0] }
            start += " from=\"\(component.sender(answering: to))\""
        }
        return Array((answer.content.isEmpty ? start + "/>" : "\(start)>\(answer.content)</iq>").utf8)
    }

    private mutating func mayAnswer(_ asker: Asker, now: UInt64) -> Bool {
        switch asker {
        case .server: true
        case .trusted: trusted.take(now: now)
        case .stranger: strangers.take(now: now)
        }
    }

    // MARK: The answers

    private typealias Answer = (type: String, content: String)

    private func answer(_ stanza: Stanza, type: Range<Int>?, isKnown: Bool) -> Answer {
        func refusal(_ kind: String, _ condition: String) -> Answer {
            let element = "<\(condition) xmlns=\"\(XMLNamespace.stanzaErrors)\"/>"
            return ("error", "<error type=\"\(kind)\">\(element)</error>")
        }
        let isGet = type.map { stanza.equals($0, "get") } ?? false
        let isSet = type.map { stanza.equals($0, "set") } ?? false
        let children = stanza.children()
        guard isGet || isSet, let child = children.first, children.count == 1 else {
            return refusal("modify", "bad-request")
        }
        if isGet, stanza.element(child, is: "ping", in: XMLNamespace.ping) { return ("result", "") }
        guard isGet, isKnown else { return refusal("cancel", "service-unavailable") }
        if stanza.element(child, is: "query", in: XMLNamespace.version) { return ("result", softwareVersion) }
        let isInfo = stanza.element(child, is: "query", in: XMLNamespace.discoveryInfo)
        guard isInfo || stanza.element(child, is: "query", in: XMLNamespace.discoveryItems) else {
            return refusal("cancel", "service-unavailable")
        }
        // XEP-0030 section 3.2: we have no nodes.
        guard stanza.attribute("node", of: child) == nil else { return refusal("cancel", "item-not-found") }
        return ("result", isInfo ? information : "<query xmlns=\"\(XMLNamespace.discoveryItems)\"/>")
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

    private var softwareVersion: String {
        let version = "<version>\(version.xmlEscaped)</version>"
        return "<query xmlns=\"\(XMLNamespace.version)\"><name>upstream-worker</name>\(version)</query>"
    }
}
