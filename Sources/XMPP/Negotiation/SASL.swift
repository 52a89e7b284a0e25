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

/// Our credentials for the server.
package struct SASLCredentials: Sendable {
    /// The authentication identity: the JID or its localpart, as configured (`username`).
    package var username: String
    /// The password or server key.
    package var secret: Secret

    package init(username: String, secret: Secret) {
        self.username = username
        self.secret = secret
    }
}

extension SASLCredentials {
    /// The name and the secret prepared by ``SASLprep``, as SCRAM hashes them.
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

/// Why a SASL exchange failed on our side.
struct SASLMechanismError: Error, Sendable {
    /// How the server broke the mechanism's rules.
    var message: String
}

/// A key that a mechanism needs and that takes long to compute; the state machines only wait for it.
package struct KeyDerivation: Sendable {
    package let hash: HashFunction
    /// The secret to derive the key from.
    package let secret: Secret
    package let salt: [UInt8]
    /// The number of rounds; within ``SCRAM/iterations``.
    package let iterations: Int

    package init(hash: HashFunction, secret: Secret, salt: [UInt8], iterations: Int) {
        self.hash = hash
        self.secret = secret
        self.salt = salt
        self.iterations = iterations
    }

    package func isSame(as other: KeyDerivation) -> Bool {
        hash == other.hash && iterations == other.iterations && salt == other.salt
            && ConstantTime.areEqual(secret.bytes, other.secret.bytes)
    }

    /// Computes the key: takes up to about a second of CPU time, so never on an event loop.
    package func run() -> Secret { Secret(hash.derive(password: secret.bytes, salt: salt, iterations: iterations)) }
}

/// The next step after a challenge.
enum SASLStep: Sendable {
    /// Answer with this message.
    case respond([UInt8])
    /// Compute the key, then call ``SASLMechanism/derived(_:)``.
    case derive(KeyDerivation)
}

/// One SASL exchange (RFC 4422) on an encrypted stream, which makes our messages from the server's.
///
/// ``SASLPolicy`` chooses the mechanism. Messages are without their Base64.
protocol SASLMechanism: Sendable {
    /// The initial response; nil for none.
    mutating func initialResponse() -> [UInt8]?

    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep

    /// The response to the challenge that required a key.
    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8]

    /// Checks the data of the server's success; a mechanism that authenticates the server does so here.
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError)
}

/// PLAIN (RFC 4616): the secret itself.
struct PlainMechanism: SASLMechanism {
    private let credentials: SASLCredentials

    init(credentials: SASLCredentials) { self.credentials = credentials }

    /// `NUL username NUL secret`, without an authorization identity and unprepared: the server prepares them (section
    /// 2).
    mutating func initialResponse() -> [UInt8]? {
        [0] + Array(credentials.username.utf8) + [0] + credentials.secret.bytes
    }

    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep {
        throw SASLMechanismError(message: "the server sent a challenge where PLAIN has none")
    }

    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8] {
        throw SASLMechanismError(message: "PLAIN derives no key")
    }

    /// Nothing to check: TLS authenticates the server, not PLAIN.
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError) {}
}

/// EXTERNAL (RFC 4422 appendix A): TLS has proved our identity; the exchange only names the account.
struct ExternalMechanism: SASLMechanism {
    private let identity: [UInt8]

    /// An exchange for this bare address (XEP-0178).
    init(address: String) { identity = Array(address.utf8) }

    /// The authorization identity: without it a server would choose among the certificate's addresses.
    mutating func initialResponse() -> [UInt8]? { identity }

    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> SASLStep {
        throw SASLMechanismError(message: "the server sent a challenge where EXTERNAL has none")
    }

    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8] {
        throw SASLMechanismError(message: "EXTERNAL derives no key")
    }

    /// Nothing to check: TLS has authenticated the server.
    mutating func finish(with additionalData: [UInt8]?) throws(SASLMechanismError) {}
}
