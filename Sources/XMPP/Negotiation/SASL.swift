package import Digests

/// A secret in memory: never part of a description, a log or an error.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var description: String { "<secret>" }

    package var debugDescription: String { description }

    /// Empty, for `dump` and other reflection.
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
