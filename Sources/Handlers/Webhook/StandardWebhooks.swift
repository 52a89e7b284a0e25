import Digests
import Vocabulary

/// The signing side of the Standard Webhooks specification (symmetric, `v1`).
struct WebhookSigner: Sendable {
    /// Why a secret can't be used: the cause and the fix; never the secret.
    enum SecretError: String, Error, Sendable, CustomStringConvertible {
        case missing = "the secret file is empty; write a line of whsec_ followed by base64"
        case tooMany = "the secret file holds more than 2 lines; remove retired secrets"
        case character = "a line of the secret file holds a space, a control character or a byte that is not ASCII"
        case form = "a line of the secret file is not whsec_ followed by base64, with its padding"
        /// The range of the specification.
        case length = "a secret must be 24 to 64 bytes long; make one with: openssl rand -base64 32"

        var description: String { rawValue }
    }

    private let keys: [[UInt8]]

    /// A signer with a file's secrets, one a line; all of them sign, as a rotation requires.
    init(secrets lines: [[UInt8]]) throws(SecretError) {
        guard !lines.isEmpty else { throw .missing }
        guard lines.count <= 2 else { throw .tooMany }
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
    /// `id` and `timestamp` (seconds since 1970) are the values of `webhook-id` and `webhook-timestamp`.
    func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        let signed = Array("\(id).\(timestamp).".utf8) + body
        return keys.map { "v1," + Base64.text(HashFunction.sha256.code(for: signed, key: $0)) }.joined(separator: " ")
    }
}
