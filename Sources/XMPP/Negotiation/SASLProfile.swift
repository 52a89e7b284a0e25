import Vocabulary
import XMLWire

/// The two ways in which XMPP carries SASL messages.
///
/// The extensible one continues the same stream after success. Its Bind 2 (XEP-0386) is not used: it makes the server
/// drop the account's offline messages, which are meant for us.
package enum SASLProfile: Sendable, Equatable {
    /// RFC 6120 section 6.
    case core
    /// XEP-0388.
    case extensible

    var namespace: StaticString {
        switch self {
        case .core: XMLNamespace.sasl
        case .extensible: XMLNamespace.sasl2
        }
    }

    /// The feature that lists the mechanisms.
    var list: StaticString {
        switch self {
        case .core: "mechanisms"
        case .extensible: "authentication"
        }
    }

    /// The element that begins an exchange with this mechanism and initial response.
    func begin(_ mechanism: String, with response: [UInt8]) -> [UInt8] {
        let encoded = Base64.encode(response)
        switch self {
        case .core:
            // RFC 6120 section 6.4.2: an empty initial response is a single equals sign.
            let text = response.isEmpty ? [UInt8(ascii: "=")] : encoded
            return Array("<auth xmlns=\"\(namespace)\" mechanism=\"\(mechanism)\">".utf8) + text + Array("</auth>".utf8)
        case .extensible:
            let start = "<authenticate xmlns=\"\(namespace)\" mechanism=\"\(mechanism)\"><initial-response>"
            return Array(start.utf8) + encoded + Array("</initial-response></authenticate>".utf8)
        }
    }

    /// The element with a response to a challenge.
    func respond(_ response: [UInt8]) -> [UInt8] {
        Array("<response xmlns=\"\(namespace)\">".utf8) + Base64.encode(response) + Array("</response>".utf8)
    }

    /// The data of a challenge or a success; nil if there is none.
    func data(of element: Stanza) throws(SASLMechanismError) -> [UInt8]? {
        var text = element.bytes[element.elements[0].text]
        if self == .extensible {
            if element.equals(element.elements[0].name, "success") {
                guard let child = element.child("additional-data", in: XMLNamespace.sasl2) else { return nil }
                text = element.bytes[element.elements[child].text]
            }
            text = text.drop(while: SASLProfile.isSpace)
            while let last = text.last, SASLProfile.isSpace(last) { text.removeLast() }
        } else if text.isEmpty, element.equals(element.elements[0].name, "success") {
            return nil
        } else if text.elementsEqual([UInt8(ascii: "=")]) {
            return []
        }
        guard let data = Base64.decode(text) else {
            throw SASLMechanismError(message: "the server's SASL message is not Base64")
        }
        return data
    }

    /// Whitespace around Base64, which XEP-0388 only advises against.
    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d }
}
