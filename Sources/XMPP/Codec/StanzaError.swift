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

/// What a stanza of `type="error"` says; its text is the peer's own words, which may quote anything, and is not read.
package struct StanzaError: Sendable, Equatable {
    /// The defined condition; ``StanzaErrorCondition/undefinedCondition`` where there is none that we know.
    package var condition: StanzaErrorCondition
    /// The numeric `code` of old servers (XEP-0086): 406 is their word for a wrong ack.
    package var legacyCode: Int?
    /// The error child of an element; of the stanza itself unless told otherwise.
    package init(_ stanza: Stanza, element: Int = 0) {
        condition = .undefinedCondition
        guard let error = stanza.child("error", in: XMLNamespace.client, of: element) else { return }
        if let code = stanza.attribute("code", of: error), code.count <= 3 { legacyCode = Int(stanza.string(code)) }
        for child in stanza.children(of: error)
        where stanza.equals(stanza.elements[child].namespace, XMLNamespace.stanzaErrors) {
            if let known = StanzaErrorCondition(rawValue: stanza.string(stanza.elements[child].name)) {
                condition = known
            }
        }
    }
}

/// Names that a peer chose, made fit for logs and errors.
///
/// Free text of a peer is never shown: servers like to quote tokens, ids and payloads in it. What an operator needs of it is
/// the defined condition, one of a closed set; beside it there are two kinds of names.
package enum PeerText {
    /// The most characters that are kept of a list or a host.
    package static let limit = 100

    /// A host and port as `see-other-host` names it (RFC 6120 section 4.9.3.19).
    ///
    /// - Returns: Letters, digits, `.`, `-`, `:` and brackets; other characters become `?`, and a label of more than 40
    ///   characters, the form of tokens and keys, becomes `[…]`.
    package static func host(_ bytes: some Collection<UInt8>) -> String {
        let clean = bytes.prefix(256).map { isWord($0) || ".:[]".utf8.contains($0) ? $0 : UInt8(ascii: "?") }
        let labels = clean.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            .map { $0.count > 40 ? "[…]" : String(decoding: $0, as: UTF8.self) }
        return String(labels.joined(separator: ".").prefix(limit))
    }

    /// Some of the SASL mechanisms that a server offers.
    ///
    /// - Parameters:
    ///   - names: UTF-8.
    ///   - limit: The most characters.
    /// - Returns: Those that are names (RFC 4422 section 3.1), as far as there is room.
    package static func mechanisms(_ names: some Sequence<String>, limit: Int = PeerText.limit) -> String {
        var list = ""
        for name in names where (1...20).contains(name.utf8.count) {
            guard name.utf8.allSatisfy({ isWord($0) && !(0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") }) else {
                continue
            }
            let longer = list.isEmpty ? name : "\(list), \(name)"
            if longer.utf8.count > limit { return list + ", …" }
            list = longer
        }
        return list
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
        default: false
        }
    }
}
