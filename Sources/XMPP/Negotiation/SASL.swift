package import Digests
import Vocabulary

/// A secret in memory: never part of a description, a log or an error.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The bytes, as they go to the server.
    package let bytes: [UInt8]

    /// A secret of these bytes.
    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Nothing of the secret.
    package var description: String { "<secret>" }

    /// Nothing of the secret.
    package var debugDescription: String { description }

    /// Nothing of the secret, for `dump` and other reflection.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Who we are to the server.
package struct SASLCredentials: Sendable {
    /// The authentication identity: the JID or its localpart, as the configuration says (`username`).
    package var username: String
    /// The password or server key.
    package var secret: Secret

    /// Credentials of these two.
    package init(username: String, secret: Secret) {
        self.username = username
        self.secret = secret
    }
}

extension SASLCredentials {
    /// The same in the form that SCRAM hashes: name and secret prepared by ``SASLprep``.
    ///
    /// - Throws: ``SASLMechanismError``, which names the key to change and no part of its value.
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

/// Why a SASL exchange went wrong on our side of it.
struct SASLMechanismError: Error, Sendable {
    /// What the server did that the mechanism does not allow.
    var message: String
}

/// A key that a mechanism needs, and that takes long to compute: done beside the machines, which only wait for it.
package struct KeyDerivation: Sendable {
    /// The hash function.
    package let hash: HashFunction
    /// What the key is derived from.
    package let secret: Secret
    /// What makes it another one on each server.
    package let salt: [UInt8]
    /// The work; within the bounds of ``SCRAM/iterations``.
    package let iterations: Int

    package init(hash: HashFunction, secret: Secret, salt: [UInt8], iterations: Int) {
        self.hash = hash
        self.secret = secret
        self.salt = salt
        self.iterations = iterations
    }

    /// Whether both give the same key.
    package func isSame(as other: KeyDerivation) -> Bool {
        hash == other.hash && iterations == other.iterations && salt == other.salt
            && ConstantTime.areEqual(secret.bytes, other.secret.bytes)
    }

    /// Computes the key: up to about a second of a processor's time, so never on an event loop.
    package func run() -> Secret { Secret(hash.derive(password: secret.bytes, salt: salt, iterations: iterations)) }
}

/// What to do about a challenge.
enum SASLStep: Sendable {
    /// Answer with this message.
    case respond([UInt8])
    /// Compute the key, then call ``SASLMechanism/derived(_:)``.
    case derive(KeyDerivation)
}

/// One SASL exchange (RFC 4422) on an encrypted stream: makes our messages from the server's.
///
/// Which mechanism begins is ``SASLPolicy``'s decision. Messages are without their Base64.
protocol SASLMechanism: Sendable {
    /// The message that goes with the mechanism's choice; nil for none.
    mutating func initialResponse() -> [UInt8]?

    /// The answer to a challenge, or what it takes first.
    ///
    /// - Throws: ``SASLMechanismError``
    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep

    /// The answer to the challenge that a key was needed for.
    ///
    /// - Throws: ``SASLMechanismError``
    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8]

    /// Checks what came with the server's success; a mechanism that authenticates the server does so here.
    ///
    /// - Throws: ``SASLMechanismError``
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError)
}

/// PLAIN (RFC 4616): the secret itself.
struct PlainMechanism: SASLMechanism {
    private let credentials: SASLCredentials

    /// An exchange that has not begun.
    init(credentials: SASLCredentials) { self.credentials = credentials }

    /// `NUL username NUL secret`, without an authorization identity, and as they stand: the server prepares them (section 2).
    mutating func initialResponse() -> [UInt8]? {
        [0] + Array(credentials.username.utf8) + [0] + credentials.secret.bytes
    }

    /// There is no second step.
    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep {
        throw SASLMechanismError(message: "the server sent a challenge where PLAIN has none")
    }

    /// No key is ever asked for.
    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8] {
        throw SASLMechanismError(message: "PLAIN derives no key")
    }

    /// Nothing to check: PLAIN does not authenticate the server, TLS does.
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError) {}
}

/// EXTERNAL (RFC 4422 appendix A): TLS has shown who we are; here is only said as whom we want to act.
struct ExternalMechanism: SASLMechanism {
    private let identity: [UInt8]

    /// An exchange that has not begun, for this bare address (XEP-0178).
    init(address: String) { identity = Array(address.utf8) }

    /// The authorization identity: without it a server would choose among the certificate's addresses.
    mutating func initialResponse() -> [UInt8]? { identity }

    /// There is no second step.
    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep {
        throw SASLMechanismError(message: "the server sent a challenge where EXTERNAL has none")
    }

    /// No key is ever asked for.
    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8] {
        throw SASLMechanismError(message: "EXTERNAL derives no key")
    }

    /// Nothing to check: TLS has authenticated the server.
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError) {}
}
