package import XMLWire

/// The defined conditions of stream errors (RFC 6120 section 4.9.3).
package enum StreamErrorCondition: String, Sendable, CaseIterable {
    /// `bad-format`
    case badFormat = "bad-format"
    /// `bad-namespace-prefix`
    case badNamespacePrefix = "bad-namespace-prefix"
    /// `conflict`: another connection took the resource.
    case conflict
    /// `connection-timeout`
    case connectionTimeout = "connection-timeout"
    /// `host-gone`
    case hostGone = "host-gone"
    /// `host-unknown`: the server does not serve the domain.
    case hostUnknown = "host-unknown"
    /// `improper-addressing`
    case improperAddressing = "improper-addressing"
    /// `internal-server-error`
    case internalServerError = "internal-server-error"
    /// `invalid-from`
    case invalidFrom = "invalid-from"
    /// `invalid-namespace`
    case invalidNamespace = "invalid-namespace"
    /// `invalid-xml`
    case invalidXML = "invalid-xml"
    /// `not-authorized`
    case notAuthorized = "not-authorized"
    /// `not-well-formed`, and `xml-not-well-formed` of RFC 3920.
    case notWellFormed = "not-well-formed"
    /// `policy-violation`
    case policyViolation = "policy-violation"
    /// `remote-connection-failed`
    case remoteConnectionFailed = "remote-connection-failed"
    /// `reset`
    case reset
    /// `resource-constraint`
    case resourceConstraint = "resource-constraint"
    /// `restricted-xml`
    case restrictedXML = "restricted-xml"
    /// `see-other-host`: followed to configured hosts only.
    case seeOtherHost = "see-other-host"
    /// `system-shutdown`
    case systemShutdown = "system-shutdown"
    /// `undefined-condition`, and whatever is not in the list.
    case undefinedCondition = "undefined-condition"
    /// `unsupported-encoding`
    case unsupportedEncoding = "unsupported-encoding"
    /// `unsupported-feature`
    case unsupportedFeature = "unsupported-feature"
    /// `unsupported-stanza-type`
    case unsupportedStanzaType = "unsupported-stanza-type"
    /// `unsupported-version`
    case unsupportedVersion = "unsupported-version"

    /// The condition of this element name.
    init?(element: String) {
        if element == "xml-not-well-formed" {
            self = .notWellFormed
        } else if let known = StreamErrorCondition(rawValue: element) {
            self = known
        } else {
            return nil
        }
    }
}

/// What a `{http://etherx.jabber.org/streams}error` says; its text is the peer's own words and is not read.
package struct StreamError: Sendable, Equatable {
    /// The defined condition; ``StreamErrorCondition/undefinedCondition`` where there is none that we know.
    package var condition: StreamErrorCondition
    /// The other host of ``StreamErrorCondition/seeOtherHost``, made fit for a log by ``PeerText``; else nil.
    package var otherHost: String?

    /// Reads a stream error; nil where the stanza is none.
    package init?(_ stanza: Stanza) {
        guard !stanza.elements.isEmpty, stanza.element(0, is: "error", in: XMLNamespace.streams) else { return nil }
        condition = .undefinedCondition
        for child in stanza.children()
        where stanza.equals(stanza.elements[child].namespace, XMLNamespace.streamErrors) {
            guard let known = StreamErrorCondition(element: stanza.string(stanza.elements[child].name)) else {
                continue
            }
            condition = known
            if known == .seeOtherHost { otherHost = PeerText.host(stanza.bytes[stanza.elements[child].text]) }
        }
    }

    /// The condition, and the host it names, for an operator.
    package var summary: String {
        guard let otherHost, !otherHost.isEmpty else { return condition.rawValue }
        return "\(condition.rawValue) (\(otherHost))"
    }

    /// The bytes that report our own verdict on the peer's stream and end ours (RFC 6120 section 4.9.1.1).
    ///
    /// - Parameter condition: What the peer did.
    /// - Returns: The error and the closing tag.
    package static func farewell(_ condition: StreamErrorCondition) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<stream:error><")
        bytes += Array(condition.rawValue.utf8)
        bytes.append(xml: " xmlns=\"urn:ietf:params:xml:ns:xmpp-streams\"/></stream:error></stream:stream>")
        return bytes
    }
}
