/// An XMPP address: `[localpart@]domainpart[/resourcepart]` (RFC 7622 section 3), whose localpart and domainpart
/// compare after ASCII case folding and without the domain's trailing dot.
package struct JID: Sendable, Equatable, CustomStringConvertible {
    package let local: [UInt8]?
    package let domain: [UInt8]
    package private(set) var resource: [UInt8]?

    /// Reads an address; nil if a part is empty or longer than 1,023 bytes.
    package init?(_ text: String) {
        var copy = text
        let parsed = copy.withUTF8 { JID(bytes: $0) }
        guard let parsed else { return nil }
        self = parsed
    }

    package init?(bytes: UnsafeBufferPointer<UInt8>) {
        guard let parts = Parts(bytes) else { return nil }
        local = parts.local.map { bytes[$0].map(JID.fold) }
        domain = bytes[parts.domain].map(JID.fold)
        resource = parts.resource.map { Array(bytes[$0]) }
    }

    package var bare: JID {
        var bare = self
        bare.resource = nil
        return bare
    }

    package var description: String { String(decoding: bytes, as: UTF8.self) }

    /// The text in UTF-8.
    var bytes: [UInt8] {
        var text: [UInt8] = []
        if let local { text += local + [UInt8(ascii: "@")] }
        text += domain
        if let resource { text += [UInt8(ascii: "/")] + resource }
        return text
    }

    /// Whether a UTF-8 text is this address, optionally with any resource or none.
    package func matches(_ text: UnsafeBufferPointer<UInt8>, anyResource: Bool = false) -> Bool {
        guard let parts = Parts(text) else { return false }
        return matches(parts, of: text, anyResource: anyResource)
    }

    func matches(_ parts: Parts, of text: UnsafeBufferPointer<UInt8>, anyResource: Bool) -> Bool {
        guard JID.equal(local, parts.local, in: text), hasDomain(of: parts, in: text) else { return false }
        if anyResource { return true }
        guard let resource, let given = parts.resource else { return resource == nil && parts.resource == nil }
        return text[given].elementsEqual(resource)
    }

    /// Whether a text's address is at this address's domain.
    func hasDomain(of parts: Parts, in text: UnsafeBufferPointer<UInt8>) -> Bool {
        JID.equal(domain, parts.domain, in: text)
    }

    private static func equal(_ folded: [UInt8]?, _ range: Range<Int>?, in text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let folded, let range else { return folded == nil && range == nil }
        guard folded.count == range.count else { return false }
        for (offset, index) in range.enumerated() where folded[offset] != fold(text[index]) { return false }
        return true
    }

    private static func fold(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// The ranges of an address's parts in its text.
    struct Parts {
        var local: Range<Int>?
        var domain: Range<Int>
        var resource: Range<Int>?

        init?(_ text: UnsafeBufferPointer<UInt8>) {
            // RFC 7622 section 3.1: the resource begins after the first slash, the domain after the first `@` before it.
            let slash = text.firstIndex(of: UInt8(ascii: "/")) ?? text.count
            let sign = text[..<slash].firstIndex(of: UInt8(ascii: "@"))
            local = sign.map { 0..<$0 }
            var end = slash
            let start = sign.map { $0 + 1 } ?? 0
            if end > start, text[end - 1] == UInt8(ascii: ".") { end -= 1 }
            domain = start..<end
            resource = slash < text.count ? slash + 1..<text.count : nil
            guard JID.fits(domain), local.map(JID.fits) ?? true, resource.map(JID.fits) ?? true else { return nil }
        }
    }

    private static func fits(_ range: Range<Int>) -> Bool { !range.isEmpty && range.count <= 1_023 }
}
