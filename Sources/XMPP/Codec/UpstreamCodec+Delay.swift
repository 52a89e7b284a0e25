import Vocabulary
import XMLWire

// When the server took a message that it had to store (XEP-0203).
extension UpstreamCodec {
    /// The member of `extra` that says so.
    ///
    /// A device that has a member of this name keeps it, and the server's time is left out.
    static var delayKey: StaticString { "urn:xmpp:delay" }
    /// The room that the member takes: the key, a time to the microsecond, quotes and punctuation.
    static let delayRoom = 64
    /// The most bytes of a `stamp`: a time with nine digits of a second's fraction and an offset is shorter.
    private static let stampLimit = 40

    /// The `stamp` of our server's delay element, a direct child; nil where there is none.
    ///
    /// Only one whose `from` is the server's domain, or our own account, in whose name a server keeps an account's messages.
    /// Of several the last one counts: a server appends its own. Who sends through the server may write such an element too,
    /// so the time is worth as much as the sender.
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

    private func isOurServer(_ from: Range<Int>, in stanza: Stanza) -> Bool {
        stanza.bytes.withUnsafeBufferPointer { bytes in
            let text = UnsafeBufferPointer(rebasing: bytes[from])
            return delaySources.contains { $0.matches(text) }
        }
    }

    /// Whether the device has a member of the delay's name, however it is escaped.
    mutating func hasDelayMember(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        reader.scanner.members.contains { member in
            let key = UnsafeBufferPointer(rebasing: text[member.key.range])
            guard key.contains(UInt8(ascii: "\\")) else {
                return key.elementsEqual(String(describing: UpstreamCodec.delayKey).utf8)
            }
            let plain = [UInt8](unsafeUninitializedCapacity: key.count) { storage, count in
                guard let base = storage.baseAddress else { return }
                count = JSONLiteral.unescape(key, into: base)
            }
            return plain.elementsEqual(String(describing: UpstreamCodec.delayKey).utf8)
        }
    }
}

extension SpanWriter {
    /// Appends the delay's member.
    mutating func append(delay time: Timestamp) {
        var member = Array("\"\(UpstreamCodec.delayKey)\":\"".utf8)
        member.append(rfc3339: time)
        member.append(UInt8(ascii: "\""))
        member.withUnsafeBufferPointer { _ = append($0) }
    }
}
