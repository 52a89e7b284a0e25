/// How a message's JSON is wrapped into its stanza.
///
/// Real servers used all of these (docs/protocol.md, A CCS), so a receiver must read all of them.
package enum EnvelopeForm: UInt8, CaseIterable, Sendable {
    /// `<gcm xmlns="google:mobile:data">` with raw quotes, as in the hosted service's upstream messages.
    case defaultNamespace
    /// `<data:gcm xmlns:data="google:mobile:data">`, as in the hosted service's acks and controls.
    case prefixed
    case cdata
    /// Quotes as `&quot;` and `&apos;`, as Prosody and ejabberd write them.
    case entities

    /// Appends the payload element around a JSON text, which may be any valid UTF-8 that XML can carry.
    package func wrap(_ json: some Collection<UInt8>, into output: inout [UInt8]) {
        let isPrefixed = self == .prefixed
        output +=
            (isPrefixed ? #"<data:gcm xmlns:data="google:mobile:data">"# : #"<gcm xmlns="google:mobile:data">"#).utf8
        if self == .cdata {
            XMLEscape.cdata(json, into: &output)
        } else {
            XMLEscape.text(json, quotes: self == .entities, into: &output)
        }
        output += (isPrefixed ? "</data:gcm>" : "</gcm>").utf8
    }
}

/// XML escaping of the emulator's output, independent of the worker's serializer.
package enum XMLEscape {
    /// Appends character data, with `& < >` and optionally both quotes as entities.
    package static func text(_ bytes: some Collection<UInt8>, quotes: Bool, into output: inout [UInt8]) {
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "&"): output += "&amp;".utf8
            case UInt8(ascii: "<"): output += "&lt;".utf8
            case UInt8(ascii: ">"): output += "&gt;".utf8
            case UInt8(ascii: "\"") where quotes: output += "&quot;".utf8
            case UInt8(ascii: "'") where quotes: output += "&apos;".utf8
            case UInt8(ascii: "\r"): output += "&#13;".utf8
            default: output.append(byte)
            }
        }
    }

    /// Appends CDATA sections; a `]]>` in the text is split over two of them.
    package static func cdata(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
        output += "<![CDATA[".utf8
        var brackets = 0
        for byte in bytes {
            if byte == UInt8(ascii: ">"), brackets >= 2 { output += "]]><![CDATA[".utf8 }
            brackets = byte == UInt8(ascii: "]") ? brackets + 1 : 0
            output.append(byte)
        }
        output += "]]>".utf8
    }

    /// Escapes a text for an attribute value or character data.
    package static func string(_ text: String) -> String {
        var output: [UInt8] = []
        self.text(text.utf8, quotes: true, into: &output)
        return String(decoding: output, as: UTF8.self)
    }
}
