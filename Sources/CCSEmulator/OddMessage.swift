/// An odd message and how a receiver must treat it: the odd cases of docs/protocol.md.
package struct OddMessage: Sendable {
    /// The table that the receiver must store it in.
    package enum Place: Sendable {
        /// Table `messages`, the data in `data`.
        case messages
        /// Table `messages`, the data in `data_raw` because jsonb would refuse it.
        case messagesRaw
        case quarantine
        /// No table: counted as `untrusted` or `other`.
        case nowhere
    }

    package var name: String
    package var place: Place
    /// Whether the receiver must ack it; if not, it must not.
    package var isAcked: Bool

    enum Body: Sendable {
        case json(String)
        case stanza(String)
    }

    var body: Body
    /// The text before the unique part in the unescaped id.
    var idHead: [UInt8] = []
    /// The text before the token in the unescaped `from`.
    var tokenHead: [UInt8] = []

    /// Makes a message with a unique id and a token, each of letters, digits and hyphens.
    func instance(id: String, token: String, address: StanzaAddress, form: EnvelopeForm) -> MessageBook.Special {
        let stanza =
            switch body {
            case .json(let text): address.stanza(around: Self.fill(text, id, token), form: form)
            case .stanza(let text): Self.fill(text, id, token)
            }
        let (wholeID, to) = (idHead + Array(id.utf8), tokenHead + Array(token.utf8))
        return MessageBook.Special(id: wholeID, to: to, stanza: stanza, expectsAck: isAcked)
    }

    package static func named(_ name: String) -> OddMessage? { all.first { $0.name == name } }

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
