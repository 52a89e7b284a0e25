/// A message that a receiver must get right although it is odd, and what is right: the odd cases of docs/protocol.md.
package struct OddMessage: Sendable {
    /// Where the receiver must put it.
    package enum Place: Sendable {
        /// Table `messages`, the data in `data`.
        case messages
        /// Table `messages`, the data in `data_raw`, because jsonb would refuse it.
        case messagesRaw
        /// Table `quarantine`.
        case quarantine
        /// No table: counted as `untrusted` or `other`.
        case nowhere
    }

    /// The oddity's name in fault scripts.
    package var name: String
    /// Where the receiver must put it.
    package var place: Place
    /// Whether the receiver must ack it; if not, it must not.
    package var isAcked: Bool

    enum Body: Sendable {
        /// JSON to be wrapped.
        case json(String)
        /// A whole stanza.
        case stanza(String)
    }

    var body: Body
    /// What stands before the unique part in the unescaped id.
    var idHead: [UInt8] = []
    /// What stands before the token in the unescaped `from`.
    var tokenHead: [UInt8] = []

    /// One such message with a unique id.
    package struct Instance: Sendable {
        /// The whole stanza.
        package var stanza: [UInt8]
        /// The id that an ack must give, unescaped; lone surrogates stand as three bytes each.
        package var id: [UInt8]
        /// The `to` that an ack must give, unescaped in the same way.
        package var to: [UInt8]
    }

    /// Makes one.
    ///
    /// - Parameters:
    ///   - id: The id's unique part, of letters, digits and hyphens.
    ///   - token: The registration token, likewise plain.
    ///   - address: The stanza's start tag.
    ///   - form: The wrapping of its JSON.
    /// - Returns: The stanza, and what an ack for it must give.
    package func instance(id: String, token: String, address: StanzaAddress, form: EnvelopeForm) -> Instance {
        let stanza =
            switch body {
            case .json(let text): address.stanza(around: Self.fill(text, id, token), form: form)
            case .stanza(let text): Self.fill(text, id, token)
            }
        return Instance(stanza: stanza, id: idHead + Array(id.utf8), to: tokenHead + Array(token.utf8))
    }

    /// The odd message of this name.
    package static func named(_ name: String) -> OddMessage? {
        all.first { $0.name == name }
    }

    /// Every one, in a fixed order.
    package static let all: [OddMessage] = unackable + ackedQuarantine + dataForms + strangers + excessive

    private static func fill(_ text: String, _ id: String, _ token: String) -> [UInt8] {
        var result: [UInt8] = []
        var rest = text[...]
        while let mark = rest.firstIndex(of: "$") {
            result += rest[..<mark].utf8
            rest = rest[rest.index(after: mark)...]
            result += (rest.first == "I" ? id : token).utf8
            rest = rest.dropFirst()
        }
        return result + Array(rest.utf8)
    }
}
