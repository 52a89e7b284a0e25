import XMLWire

/// The pings of a stream (XEP-0199), of which the last one is awaited.
struct Pinger: Sendable {
    private let idPrefix: String
    private let domain: String
    private var count = 0
    /// The last one's number among our stanzas, as stream management counts them.
    private var number: UInt32 = 0

    init(to domain: String, idPrefix: String) {
        (self.domain, self.idPrefix) = (domain, "\(idPrefix)-ping-")
    }

    /// The next ping, which is written as our stanza of this number.
    mutating func next(number: UInt32) -> [UInt8] {
        count += 1
        self.number = number
        let (to, id) = (domain.xmlEscaped, id.xmlEscaped)
        return Array("<iq type=\"get\" to=\"\(to)\" id=\"\(id)\"><ping xmlns=\"urn:xmpp:ping\"/></iq>".utf8)
    }

    /// Whether the server's count of our stanzas includes the last ping.
    func isReached(by confirmed: UInt32) -> Bool { count > 0 && Int32(bitPattern: confirmed &- number) >= 0 }

    /// Whether a stanza answers the last ping, with a result or an error; the caller judges its sender.
    func isAnswered(by stanza: Stanza) -> Bool { count > 0 && stanza.isResult(of: id) != nil }

    /// Nobody else can guess it.
    private var id: String { idPrefix + String(count) }
}
