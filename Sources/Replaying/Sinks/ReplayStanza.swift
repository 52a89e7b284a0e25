package import UpstreamKit
import Vocabulary

/// Rebuilds a stored message as it came over the wire.
///
/// The members that the worker reads are rewritten; `data` and all others stay as the device wrote them. Any worker
/// derives the same key and fingerprint.
package enum ReplayStanza {
    static func envelope(_ message: UpstreamMessage) -> [UInt8] {
        var envelope = EnvelopeWriter()
        let texts = [
            ("message_id", message.messageID), ("from", message.registrationToken.rawValue),
            ("category", message.category), ("message_type", message.messageType),
        ]
        for (name, text) in texts { if let text { envelope.add(name, literal(text)) } }
        if let data = message.data { envelope.add("data", data) }
        return envelope.finish(with: message.extra ?? [])
    }

    /// The stanza that carries it to an address; a server quotes the stanza's id when it refuses it.
    package static func stanza(_ message: UpstreamMessage, to: String?, id: String? = nil) -> [UInt8] {
        stanza(around: envelope(message), to: to, id: id)
    }

    static func stanza(around envelope: [UInt8], to: String?, id: String?) -> [UInt8] {
        var xml = Array("<message".utf8)
        xml.reserveCapacity(envelope.count + envelope.count / 4 + 160)
        for (name, value) in [("id", id), ("to", to)] {
            guard let value else { continue }
            xml += " \(name)='".utf8
            escape(value, inAttribute: true, to: &xml)
            xml.append(UInt8(ascii: "'"))
        }
        xml += " type='normal'><gcm xmlns='google:mobile:data'>".utf8
        escape(String(decoding: envelope, as: UTF8.self), to: &xml)
        return xml + Array("</gcm></message>".utf8)
    }

    /// Appends character data or an attribute's value; what XML 1.0 can't carry becomes U+FFFD.
    private static func escape(_ text: String, inAttribute: Bool = false, to xml: inout [UInt8]) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": xml += "&amp;".utf8
            case "<": xml += "&lt;".utf8
            case ">": xml += "&gt;".utf8
            // Read as a line feed unless it is a reference; in attributes all three are read as spaces.
            case "\r": xml += "&#13;".utf8
            case "\n" where inAttribute: xml += "&#10;".utf8
            case "\t" where inAttribute: xml += "&#9;".utf8
            case "'" where inAttribute: xml += "&apos;".utf8
            case "\n", "\t": xml.append(UInt8(ascii: scalar))
            case "\u{0}"..<" ", "\u{FFFE}", "\u{FFFF}": xml += "\u{FFFD}".utf8
            default: if let bytes = UTF8.encode(scalar) { xml.append(contentsOf: bytes) }
            }
        }
    }

    private static func literal(_ text: String) -> [UInt8] {
        var json = [UInt8(ascii: "\"")]
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\"".utf8
            case "\\": json += "\\\\".utf8
            // XML can't carry the last two, and JSON no raw control character.
            case "\u{0}"..<" ", "\u{FFFE}", "\u{FFFF}": JSONEscape.append(unit: UInt16(scalar.value), to: &json)
            default: json += UTF8.encode(scalar).map { Array($0) } ?? []
            }
        }
        return json + [UInt8(ascii: "\"")]
    }
}

/// Writes the JSON object that a device sent, from its parts.
struct EnvelopeWriter {
    private var json: [UInt8] = []

    /// Adds a member with a value in JSON.
    mutating func add(_ name: String, _ value: some Sequence<UInt8>) {
        json.append(UInt8(ascii: json.isEmpty ? "{" : ","))
        json += "\"\(name)\":".utf8
        json.append(contentsOf: value)
    }

    /// The object, with the members of another.
    consuming func finish(with extra: [UInt8]) -> [UInt8] {
        if let open = extra.firstIndex(of: UInt8(ascii: "{")), let close = extra.lastIndex(of: UInt8(ascii: "}")),
            open + 1 < close
        {
            json.append(UInt8(ascii: json.isEmpty ? "{" : ","))
            json += extra[(open + 1)..<close]
        }
        return json + [UInt8(ascii: "}")]
    }
}
