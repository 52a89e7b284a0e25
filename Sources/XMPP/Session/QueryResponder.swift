import XMLWire

/// Answers to the queries that a peer may put to any client (RFC 6120 section 8.2.3: each get and set must be answered).
enum QueryResponder {
    /// The longest id that is echoed.
    static let idLimit = 1_024

    /// The answer to an IQ of type `get` or `set`: a pong for a ping (XEP-0199), else `service-unavailable`.
    ///
    /// - Parameters:
    ///   - stanza: What came.
    ///   - component: Our domain where we are a component, whose answers need both addresses (XEP-0114 section 3): the one that
    ///     was asked, and the one that asks.
    /// - Returns: Nil where nothing is to be answered: results, errors, and what has no id.
    static func reply(to stanza: Stanza, as component: ComponentDomain? = nil) -> [UInt8]? {
        guard stanza.element(0, is: "iq", in: XMLNamespace.client), let type = stanza.attribute("type", of: 0),
            let id = stanza.attribute("id", of: 0), !id.isEmpty, id.count <= idLimit
        else { return nil }
        let isGet = stanza.equals(type, "get")
        guard isGet || stanza.equals(type, "set") else { return nil }
        if component != nil, stanza.attribute("from", of: 0) == nil { return nil }
        var bytes: [UInt8] = []
        let isPing = isGet && stanza.child("ping", in: XMLNamespace.ping) != nil
        bytes.append(xml: isPing ? "<iq type=\"result\" id=\"" : "<iq type=\"error\" id=\"")
        bytes.append(escaping: stanza.bytes[id])
        if let from = stanza.attribute("from", of: 0), from.count <= 3 * idLimit {
            bytes.append(xml: "\" to=\"")
            bytes.append(escaping: stanza.bytes[from])
        }
        if let component {
            bytes.append(xml: "\" from=\"")
            bytes += component.sender(answering: stanza.attribute("to", of: 0).map { stanza.bytes[$0] })
        }
        guard !isPing else {
            bytes.append(xml: "\"/>")
            return bytes
        }
        bytes.append(xml: "\"><error type=\"cancel\">")
        bytes.append(xml: "<service-unavailable xmlns=\"urn:ietf:params:xml:ns:xmpp-stanzas\"/></error></iq>")
        return bytes
    }
}
