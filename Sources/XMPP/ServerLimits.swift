import XMLWire

/// The limits that a server announces for a stream (XEP-0478).
package struct ServerLimits: Sendable, Equatable {
    /// The longest stanza that it accepts, in bytes; nil if it announces none.
    package var stanza: Int?
    /// The longest time without traffic; nil if it announces none that is usable.
    package var idle: Duration?

    package init() {}

    /// The limits in the features of an authenticated stream.
    init(features: Stanza) {
        // RFC 6120 section 13.12: no server may refuse less.
        stanza = ServerLimits.number("max-bytes", of: features).map { max($0, 10_000) }
        idle = ServerLimits.number("idle-seconds", of: features)
            .flatMap { (1...1 << 32).contains($0) ? .seconds($0) : nil }
    }

    private static func number(_ name: StaticString, of features: Stanza) -> Int? {
        guard let limits = features.child("limits", in: XMLNamespace.streamLimits),
            let element = features.child(name, in: XMLNamespace.streamLimits, of: limits)
        else { return nil }
        let text = features.bytes[features.elements[element].text]
        guard (1...18).contains(text.count), text.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return Int(String(decoding: text, as: UTF8.self))
    }
}
