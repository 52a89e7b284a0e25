package import XMLWire

/// The defined conditions of stanza errors (RFC 6120 section 8.3.3).
package enum StanzaErrorCondition: String, Sendable, CaseIterable {
    /// `bad-request`
    case badRequest = "bad-request"
    /// `conflict`
    case conflict
    /// `feature-not-implemented`
    case featureNotImplemented = "feature-not-implemented"
    /// `forbidden`
    case forbidden
    /// `gone`
    case gone
    /// `internal-server-error`
    case internalServerError = "internal-server-error"
    /// `item-not-found`
    case itemNotFound = "item-not-found"
    /// `jid-malformed`
    case jidMalformed = "jid-malformed"
    /// `not-acceptable`
    case notAcceptable = "not-acceptable"
    /// `not-allowed`
    case notAllowed = "not-allowed"
    /// `not-authorized`
    case notAuthorized = "not-authorized"
    /// `policy-violation`
    case policyViolation = "policy-violation"
    /// `recipient-unavailable`
    case recipientUnavailable = "recipient-unavailable"
    /// `redirect`
    case redirect
    /// `registration-required`
    case registrationRequired = "registration-required"
    /// `remote-server-not-found`
    case remoteServerNotFound = "remote-server-not-found"
    /// `remote-server-timeout`
    case remoteServerTimeout = "remote-server-timeout"
    /// `resource-constraint`
    case resourceConstraint = "resource-constraint"
    /// `service-unavailable`
    case serviceUnavailable = "service-unavailable"
    /// `subscription-required`
    case subscriptionRequired = "subscription-required"
    /// `undefined-condition`, and whatever is not in the list.
    case undefinedCondition = "undefined-condition"
    /// `unexpected-request`
    case unexpectedRequest = "unexpected-request"
}

/// What a stanza of `type="error"` says.
package struct StanzaError: Sendable, Equatable {
    /// The defined condition; ``StanzaErrorCondition/undefinedCondition`` where there is none that we know.
    package var condition: StanzaErrorCondition
    /// The numeric `code` of old servers (XEP-0086): 406 is their word for a wrong ack.
    package var legacyCode: Int?
    /// The text, made fit for a log by ``PeerText``; empty where there is none.
    package var text: String

    /// The error child of an element; of the stanza itself unless told otherwise.
    package init(_ stanza: Stanza, element: Int = 0) {
        condition = .undefinedCondition
        text = ""
        guard let error = stanza.child("error", in: XMLNamespace.client, of: element) else { return }
        if let code = stanza.attribute("code", of: error), code.count <= 3 { legacyCode = Int(stanza.string(code)) }
        for child in stanza.children(of: error)
        where stanza.equals(stanza.elements[child].namespace, XMLNamespace.stanzaErrors) {
            if stanza.equals(stanza.elements[child].name, "text") {
                text = PeerText.fit(stanza.bytes[stanza.elements[child].text])
            } else if let known = StanzaErrorCondition(rawValue: stanza.string(stanza.elements[child].name)) {
                condition = known
            }
        }
    }
}

/// Text that a peer chose, made fit for logs and errors.
package enum PeerText {
    /// The most characters that are kept.
    package static let limit = 200

    /// Printable ASCII of bounded length.
    ///
    /// Other bytes become `?`; a run of more than 40 letters, digits and `-_:.` becomes `[…]`, because that is the form
    /// of registration tokens and keys, which servers like to quote in error texts.
    package static func fit(_ bytes: some Collection<UInt8>) -> String {
        var words: [Substring] = []
        let clean = String(
            decoding: bytes.prefix(4 * limit).map { $0 >= 0x20 && $0 < 0x7f ? $0 : UInt8(ascii: "?") },
            as: UTF8.self
        )
        for word in clean.split(separator: " ") {
            words.append(word.count > 40 && word.contains(where: { $0.isLetter || $0.isNumber }) ? "[…]" : word)
        }
        return String(words.joined(separator: " ").prefix(limit))
    }
}
