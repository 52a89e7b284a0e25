/// The domain of an external component (XEP-0114), all of whose localparts are ours.
///
/// A server ends the stream of a component that sends from outside its domain (`invalid-from`), and some compare byte
/// by byte: so what we send has the configured spelling.
struct ComponentDomain: Sendable {
    /// The domain, escaped for XML.
    let text: [UInt8]
    private let address: JID?

    init(_ domain: String) {
        var text: [UInt8] = []
        text.append(escaping: domain.utf8)
        self.text = text
        address = JID(domain)
    }

    /// The parts of an address at this domain; nil for any other text.
    func parts(of text: UnsafeBufferPointer<UInt8>) -> JID.Parts? {
        guard let address, let parts = JID.Parts(text), address.hasDomain(of: parts, in: text) else { return nil }
        return parts
    }

    /// Our address in an answer, escaped for XML: the `to` of the received stanza, or the domain if that is not ours.
    func sender(answering addressed: ArraySlice<UInt8>?) -> [UInt8] {
        guard let addressed else { return text }
        return addressed.withUnsafeBufferPointer { bytes in
            guard let parts = parts(of: bytes) else { return text }
            var sender: [UInt8] = []
            if let local = parts.local {
                sender.append(escaping: bytes[local])
                sender.append(UInt8(ascii: "@"))
            }
            sender += text
            if let resource = parts.resource {
                sender.append(UInt8(ascii: "/"))
                sender.append(escaping: bytes[resource])
            }
            return sender
        }
    }
}
