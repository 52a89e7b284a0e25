package import XMLWire

/// The defined conditions of stanza errors (RFC 6120 section 8.3.3).
package enum StanzaErrorCondition: String, Sendable, CaseIterable {
    case badRequest = "bad-request"
    case conflict
    case featureNotImplemented = "feature-not-implemented"
    case forbidden
    case gone
    case internalServerError = "internal-server-error"
    case itemNotFound = "item-not-found"
    case jidMalformed = "jid-malformed"
    case notAcceptable = "not-acceptable"
    case notAllowed = "not-allowed"
    case notAuthorized = "not-authorized"
    case policyViolation = "policy-violation"
    case recipientUnavailable = "recipient-unavailable"
    case redirect
    case registrationRequired = "registration-required"
    case remoteServerNotFound = "remote-server-not-found"
    case remoteServerTimeout = "remote-server-timeout"
    case resourceConstraint = "resource-constraint"
    case serviceUnavailable = "service-unavailable"
    case subscriptionRequired = "subscription-required"
    /// `undefined-condition`, or a condition not in this list.
    case undefinedCondition = "undefined-condition"
    case unexpectedRequest = "unexpected-request"
}

/// A stanza of `type="error"`; its free text is not read, since the peer may quote anything in it.
package struct StanzaError: Sendable, Equatable {
    /// The defined condition; ``StanzaErrorCondition/undefinedCondition`` for an unknown or missing one.
    package var condition: StanzaErrorCondition

    package init(_ stanza: Stanza) {
        let error = stanza.child("error", in: XMLNamespace.client)
        condition = error.flatMap { stanza.condition(of: $0, in: XMLNamespace.stanzaErrors) } ?? .undefinedCondition
    }
}

/// Names chosen by a peer, made safe for logs and errors; its free text may quote payloads and is never shown.
package enum PeerText {
    /// The most characters of a list or a host.
    package static let limit = 100

    /// A host and port as `see-other-host` names it (RFC 6120 section 4.9.3.19): other characters than letters, digits,
    /// `.`, `-`, `:` and brackets become `?`, and a label of over 40 characters (a token, a key) becomes `[…]`.
    package static func host(_ bytes: some Collection<UInt8>) -> String {
        let clean = bytes.prefix(256).map { isWord($0) || ".:[]".utf8.contains($0) ? $0 : UInt8(ascii: "?") }
        let labels = clean.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            .map { $0.count > 40 ? "[…]" : String(decoding: $0, as: UTF8.self) }
        return String(labels.joined(separator: ".").prefix(limit))
    }

    /// A list of the valid names (RFC 4422 section 3.1) of SASL mechanisms that a server offers, as far as it fits.
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
