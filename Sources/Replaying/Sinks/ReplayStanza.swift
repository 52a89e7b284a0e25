package import UpstreamKit
import Vocabulary
import XMLWire

/// Rebuilds a stored message as it came over the wire.
///
/// The members that the worker reads are rewritten; `data` and all others stay as the device wrote them. Any worker
/// derives the same key and fingerprint.
package enum ReplayStanza {
    static func envelope(_ message: UpstreamMessage) -> [UInt8] {
        var json: [UInt8] = []
        json.reserveCapacity(256 + (message.data?.count ?? 0) + (message.extra?.count ?? 0))
        json += "{\"message_id\":".utf8
        append(message.messageID, to: &json)
        json += ",\"from\":".utf8
        append(message.registrationToken.rawValue, to: &json)
        json += ",\"category\":".utf8
        append(message.category, to: &json)
        if let type = message.messageType {
            json += ",\"message_type\":".utf8
            append(type, to: &json)
        }
        if let data = message.data {
            json += ",\"data\":".utf8
            json += data
        }
        if let extra = message.extra, let open = extra.firstIndex(of: UInt8(ascii: "{")),
            let close = extra.lastIndex(of: UInt8(ascii: "}")), open + 1 < close
        {
            json.append(UInt8(ascii: ","))
            json += extra[(open + 1)..<close]
        }
        json.append(UInt8(ascii: "}"))
        return json
    }

    /// The stanza that carries it.
    ///
    /// - Parameters:
    ///   - message: The message.
    ///   - to: The recipient's address; nil for none.
    ///   - id: The stanza's id, which a server quotes when it refuses it; nil for none.
    /// - Returns: XML.
    package static func stanza(_ message: UpstreamMessage, to: String?, id: String? = nil) -> [UInt8] {
        let envelope = envelope(message)
        var writer = XMLWriter(reservingCapacity: envelope.count + envelope.count / 4 + 160)
        writer.start("message")
        if let id { writer.attribute("id", id) }
        if let to { writer.attribute("to", to) }
        writer.attribute("type", "normal")
        writer.start("gcm")
        writer.attribute("xmlns", "google:mobile:data")
        writer.text(utf8: envelope)
        writer.end()
        writer.end()
        return writer.bytes
    }

    private static func append(_ text: String, to json: inout [UInt8]) {
        json.append(UInt8(ascii: "\""))
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\"".utf8
            case "\\": json += "\\\\".utf8
            // XML can't carry the last two, and JSON no raw control character.
            case "\u{0}"..<" ", "\u{FFFE}", "\u{FFFF}": JSONEscape.append(unit: UInt16(scalar.value), to: &json)
            default: json += UTF8.encode(scalar).map { Array($0) } ?? []
            }
        }
        json.append(UInt8(ascii: "\""))
    }
}
