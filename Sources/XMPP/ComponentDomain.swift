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
    func sender(answering addressed: ArraySlice<UInt8>?) -> String {
        let domain = String(decoding: text, as: UTF8.self)
        guard let addressed else { return domain }
        return addressed.withUnsafeBufferPointer { bytes in
            guard let parts = parts(of: bytes) else { return domain }
            func part(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self).xmlEscaped }
            let local = parts.local.map { part($0) + "@" } ?? ""
            return local + domain + (parts.resource.map { "/" + part($0) } ?? "")
        }
    }
}
