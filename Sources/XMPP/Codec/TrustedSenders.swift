import Glibc

/// The addresses whose stanzas may carry payloads (docs/protocol.md, Who is trusted); never by prefix or suffix.
struct TrustedSenders: Sendable {
    private enum Extent {
        case exact
        case anyResource
        case anyAccount
    }

    /// The texts of all entries but wildcards: nearly every stanza has one of them, byte by byte.
    private var texts: [[UInt8]] = []
    private var entries: [(address: JID, extent: Extent)] = []
    private var own: JID?

    /// The configured addresses and, except for a component, the domain itself.
    init(_ settings: StreamSettings) {
        if settings.dialect != .component, let domain = JID(settings.domain), domain.local == nil {
            add(domain.bare, .exact)
        }
        for text in settings.trustedFrom {
            guard let address = JID(TrustedSenders.folded(text)) else { continue }
            switch (address.local, address.resource) {
            case (TrustedSenders.wildcard, nil): entries.append((address, .anyAccount))
            // Has no meaning.
            case (TrustedSenders.wildcard, _): break
            case (_, nil): add(address, .anyResource)
            default: add(address, .exact)
            }
        }
    }

    private static var wildcard: [UInt8] { [UInt8(ascii: "*")] }

    /// The text as servers write it: localparts and domains in lower case beyond ASCII as well (RFC 7622, 3.2 and 3.3).
    private static func folded(_ text: String) -> String {
        let slash = text.firstIndex(of: "/") ?? text.endIndex
        return text[..<slash].lowercased() + text[slash...]
    }

    private mutating func add(_ address: JID, _ extent: Extent) {
        entries.append((address, extent))
        texts.append(Array(address.description.utf8))
    }

    /// Trusts our own bare address, on whose behalf the server speaks (RFC 6120 section 8.1.2.1).
    mutating func insert(own address: JID) {
        own = address.bare
        add(address.bare, .exact)
    }

    /// Whether a `from` attribute is our own address, with any resource or none.
    func isOwn(_ from: UnsafeBufferPointer<UInt8>) -> Bool { own?.matches(from, anyResource: true) ?? false }

    func contains(_ from: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = from.baseAddress else { return false }
        // Both borrowed for the call.
        for text in texts where text.count == from.count && memcmp(text, start, text.count) == 0 { return true }
        guard let parts = JID.Parts(from) else { return false }
        for (address, extent) in entries {
            switch extent {
            case .exact: if address.matches(parts, of: from, anyResource: false) { return true }
            case .anyResource: if address.matches(parts, of: from, anyResource: true) { return true }
            case .anyAccount: if parts.local != nil, address.hasDomain(of: parts, in: from) { return true }
            }
        }
        return false
    }
}
