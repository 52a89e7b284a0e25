package import XMLWire

/// The defined conditions of stream errors (RFC 6120 section 4.9.3).
package enum StreamErrorCondition: String, Sendable, CaseIterable {
    case badFormat = "bad-format"
    case badNamespacePrefix = "bad-namespace-prefix"
    case conflict
    case connectionTimeout = "connection-timeout"
    case hostGone = "host-gone"
    case hostUnknown = "host-unknown"
    case improperAddressing = "improper-addressing"
    case internalServerError = "internal-server-error"
    case invalidFrom = "invalid-from"
    case invalidNamespace = "invalid-namespace"
    case invalidXML = "invalid-xml"
    case notAuthorized = "not-authorized"
    /// `not-well-formed`, and `xml-not-well-formed` of RFC 3920.
    case notWellFormed = "not-well-formed"
    case policyViolation = "policy-violation"
    case remoteConnectionFailed = "remote-connection-failed"
    case reset
    case resourceConstraint = "resource-constraint"
    case restrictedXML = "restricted-xml"
    /// `see-other-host`: followed to configured hosts only.
    case seeOtherHost = "see-other-host"
    case systemShutdown = "system-shutdown"
    /// `undefined-condition`, or a condition not in this list.
    case undefinedCondition = "undefined-condition"
    case unsupportedEncoding = "unsupported-encoding"
    case unsupportedFeature = "unsupported-feature"
    case unsupportedStanzaType = "unsupported-stanza-type"
    case unsupportedVersion = "unsupported-version"
}

/// A `{http://etherx.jabber.org/streams}error`; its free text is not read.
package struct StreamError: Sendable, Equatable {
    /// The defined condition; ``StreamErrorCondition/undefinedCondition`` for an unknown or missing one.
    package var condition: StreamErrorCondition
    /// The other host of ``StreamErrorCondition/seeOtherHost``, made safe for a log by ``PeerText``; otherwise nil.
    package var otherHost: String?

    package init?(_ stanza: Stanza) {
        guard !stanza.elements.isEmpty, stanza.element(0, is: "error", in: XMLNamespace.streams) else { return nil }
        condition = .undefinedCondition
        for child in stanza.children()
        where stanza.equals(stanza.elements[child].namespace, XMLNamespace.streamErrors) {
            let name = stanza.string(stanza.elements[child].name)
            let isOld = name == "xml-not-well-formed"
            guard let known = isOld ? .notWellFormed : StreamErrorCondition(rawValue: name) else { continue }
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
    package static func farewell(_ condition: StreamErrorCondition) -> [UInt8] {
        let element = "<\(condition.rawValue) xmlns=\"\(XMLNamespace.streamErrors)\"/>"
        return Array("<stream:error>\(element)</stream:error></stream:stream>".utf8)
    }
}
