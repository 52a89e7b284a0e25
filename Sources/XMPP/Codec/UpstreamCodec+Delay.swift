import Vocabulary
import XMLWire

// The time at which the server stored a message (XEP-0203).
extension UpstreamCodec {
    /// The member of `extra` with the server's time; a device's own member of this name is kept instead.
    static var delayKey: StaticString { "urn:xmpp:delay" }
    /// The room for the member: the key, a time to the microsecond, quotes and punctuation.
    static let delayRoom = 64
    /// The most bytes of a `stamp`: a time with nine fractional digits and an offset is shorter.
    private static let stampLimit = 40

    /// The `stamp` of our server's delay element, a direct child: from the server's domain or our own account, and the
    /// last one, since a server appends its own.
    func delay(in stanza: Stanza) -> Timestamp? {
        var found: Timestamp?
        for child in stanza.children() where stanza.element(child, is: "delay", in: XMLNamespace.delay) {
            guard let from = stanza.attribute("from", of: child), let stamp = stanza.attribute("stamp", of: child),
                (19...UpstreamCodec.stampLimit).contains(stamp.count), isOurServer(from, in: stanza),
                let time = try? Timestamp(parsing: stanza.string(stamp))
            else { continue }
            found = time
        }
        return found
    }

    /// Whether an attribute's address is that of the server, or of our own account, for which it speaks.
    func isOurServer(_ from: Range<Int>, in stanza: Stanza) -> Bool {
        stanza.bytes.withUnsafeBufferPointer { bytes in
            let text = UnsafeBufferPointer(rebasing: bytes[from])
            return delaySources.contains { $0.matches(text) }
        }
    }

    /// Whether the device has a member with the delay's name, however it is escaped.
    mutating func hasDelayMember(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        reader.scanner.members.contains { member in
            JSONLiteral.text(of: member.key, in: text).elementsEqual(String(describing: UpstreamCodec.delayKey).utf8)
        }
    }
}

extension SpanWriter {
    mutating func append(delay time: Timestamp) {
        var member = Array("\"\(UpstreamCodec.delayKey)\":\"".utf8)
        member.append(rfc3339: time)
        member.append(UInt8(ascii: "\""))
        member.withUnsafeBufferPointer { _ = append($0) }
    }
}
