import Digests

/// The signing side of the Standard Webhooks specification (symmetric, `v1`).
package struct WebhookSigner: Sendable {
    /// Why a secret can't be used.
    package enum SecretError: Error, Sendable, Hashable, CustomStringConvertible {
        /// There is none.
        case missing
        /// More than ``WebhookSigner/secretLimit``.
        case tooMany
        /// A character that no secret has, such as a space or NUL.
        case character
        /// Not `whsec_` and base64.
        case form
        /// Not 24 to 64 bytes, the range of the specification.
        case length

        /// The cause and the fix; never the secret.
        package var description: String {
            switch self {
            case .missing: "the secret file is empty; write a line of whsec_ followed by base64"
            case .tooMany: "the secret file holds more than \(WebhookSigner.secretLimit) lines; remove retired secrets"
            case .character: "a line of the secret file holds a space, a control character or a byte that is not ASCII"
            case .form: "a line of the secret file is not whsec_ followed by base64, with its padding"
            case .length: "a secret must be 24 to 64 bytes long; make one with: openssl rand -base64 32"
            }
        }
    }

    /// The most secrets that sign at the same time.
    package static let secretLimit = 2

    private let keys: [[UInt8]]

    /// A signer with the secrets of a file, one a line; all of them sign, which is what a rotation needs.
    ///
    /// - Throws: ``SecretError``
    package init(secrets lines: [[UInt8]]) throws(SecretError) {
        guard !lines.isEmpty else { throw .missing }
        guard lines.count <= Self.secretLimit else { throw .tooMany }
        var keys: [[UInt8]] = []
        for line in lines {
            guard line.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .character }
            guard line.starts(with: "whsec_".utf8), let key = Base64.decode(line.dropFirst(6)) else { throw .form }
            guard (24...64).contains(key.count) else { throw .length }
            keys.append(key)
        }
        self.keys = keys
    }

    /// The value of `webhook-signature`: a `v1` signature for each secret, separated by spaces.
    ///
    /// - Parameters:
    ///   - id: The value of `webhook-id`.
    ///   - timestamp: The value of `webhook-timestamp`: seconds since 1970.
    ///   - body: The request's body.
    /// - Returns: The header's value.
    package func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        let signed = Array("\(id).\(timestamp).".utf8) + body
        return keys.map { "v1," + Base64.encode(HMACSHA256.code(for: signed, key: $0)) }.joined(separator: " ")
    }
}

/// Base64 with padding (RFC 4648 §4).
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The text form of bytes.
    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var bits = group.reduce(0) { $0 << 8 | Int($1) }
            bits <<= 8 * (3 - group.count)
            for index in 0..<4 {
                text.append(index <= group.count ? alphabet[bits >> (18 - 6 * index) & 63] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of a text, or nil where it is not canonical base64.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count.isMultiple(of: 4) else { return nil }
        var bytes: [UInt8] = []
        var (bits, count, padding) = (0, 0, 0)
        for byte in text {
            if byte == UInt8(ascii: "=") {
                padding += 1
                bits <<= 6
            } else {
                guard padding == 0, let value = alphabet.firstIndex(of: byte) else { return nil }
                bits = bits << 6 | value
            }
            count += 1
            if count.isMultiple(of: 4) {
                bytes += [UInt8(bits >> 16 & 255), UInt8(bits >> 8 & 255), UInt8(bits & 255)]
                bits = 0
            }
        }
        guard padding <= 2, bytes.suffix(padding).allSatisfy({ $0 == 0 }) else { return nil }
        return bytes.dropLast(padding)
    }
}
