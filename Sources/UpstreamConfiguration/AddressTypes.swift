import ConfigurationKeys
import DNS
import Foundation
import Vocabulary
import XMPP

/// Types for the parts of XMPP addresses, and for hosts.
extension ConfigurationType where Value == String {
    /// The sender id of a CCS.
    static var senderID: Self {
        var type = text("id", "1-64 letters, digits, '.', '_' or '-'") { text in
            text.utf8.count <= 64 && text.isAlphanumeric(or: "._-")
        }
        type.shape = .id
        return type
    }

    /// The local part of an account's address (RFC 7622 section 3.3), in the servers' form.
    static var localpart: Self {
        let rule = "the local part of an XMPP address, without the '@' and the domain"
        return .init(name: "id", placeholder: "", shape: .id) { text throws(ConfigurationTypeError) in
            let text = try ConfigurationType.text("id", rule, isLocalpart).parse(text)
            // As servers compare it: anything beyond ASCII composed and in lower case, without compatibility forms.
            let prepared =
                text.unicodeScalars.allSatisfy(\.isASCII)
                ? text : text.lowercased().precomposedStringWithCompatibilityMapping
            guard Array(prepared.utf8) == Array(text.utf8) else {
                throw .init(message: "must be written as servers compare it (RFC 8265), such as '\(prepared)'")
            }
            return text
        }
    }

    /// A host to connect to, or the name in its certificate, in ASCII; or an IP address.
    static var host: Self {
        let type = ConfigurationType.text("host", "a host name or an IP address", isHost)
        return .init(name: "host", placeholder: "") { text throws(ConfigurationTypeError) in
            let text = try type.parse(text)
            if NetworkAddress(text) != nil { return text }
            guard let name = InternationalDomain.ascii(text) else {
                throw .init(message: "must be a host name or an IP address, not '\(shown(text))'")
            }
            return name
        }
    }

    /// An XMPP domain as in addresses: A-labels or U-labels as given, in lower case.
    static var domain: Self {
        .init(name: "host", placeholder: "") { text throws(ConfigurationTypeError) in
            let ascii = try ConfigurationType.host.parse(text)
            guard NetworkAddress(ascii) == nil, !text.unicodeScalars.allSatisfy(\.isASCII) else { return ascii }
            return InternationalDomain.unicode(ascii)
        }
    }

    /// An XMPP address (RFC 7622): a domain, an account, an account's resource, or all accounts of a domain.
    static var address: Self {
        .text("text", "an XMPP address such as devices@example.org, example.org or *@example.org", isAddress)
    }

    /// Whether a text is an address, by stricter rules than for streams, to catch typing mistakes.
    private static func isAddress(_ text: String) -> Bool {
        guard let address = JID(text) else { return false }
        // What a localpart can't hold: RFC 7622 section 3.3.1.
        let local = address.local ?? []
        // A localpart may hold an asterisk, which would not mean what it seems to.
        let hasLocal =
            local == Array("*".utf8)
            ? address.resource == nil : !local.contains { "\"&'/:<>@ *".utf8.contains($0) || $0 < 0x20 }
        let domain = String(decoding: address.domain, as: UTF8.self)
        let labels = domain.split(separator: ".", omittingEmptySubsequences: false)
        let isLiteral = domain.hasPrefix("[") && domain.hasSuffix("]")
        let hasDomain =
            isLiteral
            || labels.allSatisfy { label in
                !label.isEmpty && label.utf8.count <= 63
                    && label.unicodeScalars.allSatisfy { scalar in
                        !scalar.isASCII || scalar == "-" || scalar.properties.isAlphabetic
                            || ("0"..."9").contains(scalar)
                    }
            }
        // A resource may hold nearly anything (section 3.4), but no space at its ends.
        let resource = address.resource.map { String(decoding: $0, as: UTF8.self) } ?? ""
        return hasLocal && hasDomain && !resource.hasPrefix(" ") && !resource.hasSuffix(" ")
    }

    /// Whether a text is an account's name.
    ///
    /// RFC 7622 section 3.3.1 forbids some of ASCII; RFC 8264 section 4.2 allows only letters, digits and marks beyond.
    private static func isLocalpart(_ text: String) -> Bool {
        text.utf8.count <= 1_023
            && text.unicodeScalars.allSatisfy { scalar in
                guard !scalar.isASCII else {
                    return scalar.value > 0x20 && scalar.value < 0x7f && !"\"&'/:<>@".unicodeScalars.contains(scalar)
                }
                switch scalar.properties.generalCategory {
                case .lowercaseLetter, .uppercaseLetter, .otherLetter, .modifierLetter, .decimalNumber,
                    .nonspacingMark, .spacingMark:
                    return true
                default: return false
                }
            }
    }

    /// Whether a text is a host name or an address; strict enough to catch a URL, a port or an @.
    private static func isHost(_ text: String) -> Bool {
        text.utf8.count <= 255 && !text.hasPrefix(".")
            && String(text.unicodeScalars.filter(\.isASCII)).isAlphanumeric(or: "._-:")
            && (!text.contains(":") || NetworkAddress(text)?.isIPv6 == true)
    }
}

extension ConfigurationType where Value == NameServers {
    /// An IPv4 address and a port, such as `127.0.0.1:53`.
    static var nameServer: Self {
        let wanted = "an IPv4 address and a port, such as 127.0.0.1:53"
        return .init(name: "IPv4:port", placeholder: .system, wanted: wanted) { text in
            let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, let port = UInt16(parts[1]), port > 0 else { return nil }
            return NameServers(address: parts[0], port: port)
        }
    }
}

extension SenderConfiguration {
    /// The XMPP domain in ASCII, for DNS, SNI and certificates.
    package var domainInASCII: String { InternationalDomain.ascii(domain) ?? domain }

    /// The XMPP domain with U-labels, as in addresses (RFC 7622 section 3.2.1).
    package var domainInUnicode: String { InternationalDomain.unicode(domainInASCII) }

    /// The accepted senders of stanzas in every spelling of their domains, with our own domain's other spelling.
    ///
    /// A server may write A-labels or U-labels (RFC 7622 section 3.2.1), whichever is configured.
    package var trustedSpellings: [String] {
        // A component never hears from its own domain, in any spelling.
        let own = dialect == .component ? [] : Self.respelled(domain)
        return stream.trustedFrom.flatMap { address in [address] + Self.respelled(address) } + own
    }

    /// An address with its domain in the other form; empty if it has only one.
    private static func respelled(_ address: String) -> [String] {
        let resource = address.firstIndex(of: "/") ?? address.endIndex
        let local = address[..<resource].firstIndex(of: "@").map { address.index(after: $0) } ?? address.startIndex
        let domain = String(address[local..<resource])
        guard let ascii = InternationalDomain.ascii(domain) else { return [] }
        let other = domain.unicodeScalars.allSatisfy(\.isASCII) ? InternationalDomain.unicode(ascii) : ascii
        guard other != domain.lowercased() else { return [] }
        return [address[..<local] + other + address[resource...]].map { String($0) }
    }
}
