package import Digests
import Vocabulary
import XMLWire

/// A secret in memory: never part of a description, a log or an error.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var description: String { "<secret>" }

    package var debugDescription: String { description }

    package var customMirror: Mirror { Mirror(self, children: []) }
}

struct SASLCredentials: Sendable {
    /// The authentication identity: the JID or its localpart, as configured (`username`).
    var username: String
    var secret: Secret

    /// The name and the secret prepared by ``SASLprep``, as SCRAM hashes them; an error names the key, never the value.
    func prepared() throws(SASLMechanismError) -> SASLCredentials {
        var prepared = self
        do throws(SASLprep.Failure) {
            prepared.username = String(decoding: try SASLprep.prepare(Array(username.utf8)), as: UTF8.self)
        } catch {
            throw SASLMechanismError(message: "the user name \(error.reason): check `sender_id` and `domain`")
        }
        do throws(SASLprep.Failure) {
            prepared.secret = Secret(try SASLprep.prepare(secret.bytes))
        } catch {
            throw SASLMechanismError(
                message: "the secret \(error.reason): check the file of `secret_file`, or set another password"
            )
        }
        return prepared
    }
}

/// Why a SASL exchange failed on our side.
struct SASLMechanismError: Error, Sendable {
    /// How the server broke the mechanism's rules.
    var message: String
}

/// A key that a mechanism needs and that takes long to compute; the state machines only wait for it.
package struct KeyDerivation: Sendable {
    package let hash: HashFunction
    package let secret: Secret
    package let salt: [UInt8]
    /// The number of rounds; within ``SCRAM/iterations``.
    package let iterations: Int

    package func isSame(as other: KeyDerivation) -> Bool {
        hash == other.hash && iterations == other.iterations && salt == other.salt
            && ConstantTime.areEqual(secret.bytes, other.secret.bytes)
    }

    /// Computes the key: takes up to about a second of CPU time, so never on an event loop.
    package func run() -> Secret { Secret(hash.derive(password: secret.bytes, salt: salt, iterations: iterations)) }
}

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

/// A server's offer of mechanisms in the features of an encrypted stream.
package struct SASLOffer: Sendable, Equatable {
    package var mechanisms: [String]
    /// The listed types of channel binding (XEP-0440), unchanged; nil without a list.
    package var bindings: [String]?
    package var profile = SASLProfile.core
}

extension SASLOffer {
    /// Reads the offer of the first of these profiles that the server has; the framer's limits bound the lists.
    init(_ features: Stanza, profiles: [SASLProfile] = [.core]) {
        self.init(mechanisms: [])
        profile = profiles.first { features.child($0.list, in: $0.namespace) != nil } ?? .core
        if let list = features.child(profile.list, in: profile.namespace) {
            for child in features.children(of: list)
            where features.element(child, is: "mechanism", in: profile.namespace) {
                mechanisms.append(features.string(features.elements[child].text))
            }
        }
        guard let list = features.child("sasl-channel-binding", in: XMLNamespace.channelBinding) else { return }
        var types: [String] = []
        for child in features.children(of: list)
        where features.element(child, is: "channel-binding", in: XMLNamespace.channelBinding) {
            if let type = features.attribute("type", of: child) { types.append(features.string(type)) }
        }
        bindings = types
    }

    /// The text whose hash a server with XEP-0474 (0.4.0) puts into its first SCRAM message: the lists sorted by bytes,
    /// with separators that are not allowed in XML.
    var downgradeText: [UInt8] {
        func joined(_ names: [String]) -> [UInt8] {
            let sorted = names.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            return Array(sorted.joined(separator: [0x1e]))
        }
        guard let bindings else { return joined(mechanisms) }
        return joined(mechanisms) + [0x1f] + joined(bindings)
    }
}
