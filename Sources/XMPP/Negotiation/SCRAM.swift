import Digests
import Vocabulary

/// SCRAM (RFC 5802) as a pure value: proves that we know the secret without sending it, and makes the server prove the
/// same (drawn in docs/state-machines.md).
///
/// The salted password takes up to 1,000,000 rounds of HMAC and is computed outside of the machine. With channel binding
/// the proof is worthless on any other TLS connection.
struct SCRAM: Sendable {
    enum Step: Sendable {
        case respond([UInt8])
        /// Compute the key, then call ``SCRAM/derived(_:)``.
        case derive(KeyDerivation)
    }

    enum State {
        case begun
        case awaitingChallenge
        /// The server's first message came; the salted password is being computed.
        case deriving(ServerFirst, challenge: [UInt8])
        /// Our proof is sent; the server's proof must equal this.
        case awaitingSignature([UInt8])
        case verified
    }

    /// The iterations that a server may ask for: fewer let an eavesdropper find the secret (RFC 7677), more waste time.
    static let iterations = 4_096...1_000_000
    /// The longest message that a server may send.
    static let messageLimit = 4_096

    /// The errors that a server may end the exchange with (RFC 5802 section 7); anything else counts as `other-error`.
    private static let failures = [
        "invalid-encoding", "extensions-not-supported", "invalid-proof", "channel-bindings-dont-match",
        "server-does-support-channel-binding", "channel-binding-not-supported", "unsupported-channel-binding-type",
        "unknown-user", "invalid-username-encoding", "no-resources",
    ]

    let hash: HashFunction
    /// Prepared by ``SASLprep``.
    let credentials: SASLCredentials
    /// Printable ASCII without a comma.
    let nonce: [UInt8]
    let binding: ChannelBindingFlag
    let offer: SASLOffer
    private(set) var state = State.begun

    private var bareFirst: [UInt8] {
        var bytes = Array("n=".utf8)
        for byte in credentials.username.utf8 {
            switch byte {
            case UInt8(ascii: ","): bytes += Array("=2C".utf8)
            case UInt8(ascii: "="): bytes += Array("=3D".utf8)
            default: bytes.append(byte)
            }
        }
        return bytes + Array(",r=".utf8) + nonce
    }

    /// The first message: the user and our nonce.
    mutating func initialResponse() -> [UInt8] {
        state = .awaitingChallenge
        return binding.header + bareFirst
    }

    /// Handles a challenge: requests the key for our proof, or, after the server's proof, responds with nothing.
    mutating func respond(to challenge: [UInt8]) throws(SASLMechanismError) -> Step {
        switch state {
        case .awaitingChallenge:
            let first = try ServerFirst(challenge, nonce: nonce)
            try compare(first.offerDigests)
            state = .deriving(first, challenge: challenge)
            return .derive(
                KeyDerivation(hash: hash, secret: credentials.secret, salt: first.salt, iterations: first.iterations)
            )
        case .awaitingSignature(let expected):
            // RFC 6120 section 6.3.10: a server may send its proof as a challenge.
            try verify(challenge, expected)
            return .respond([])
        case .begun, .deriving, .verified:
            throw SASLMechanismError(message: "the server sent a SCRAM challenge too many")
        }
    }

    /// Compares the server's hash of its offer (XEP-0474), which both proofs cover, with the received offer.
    private func compare(_ digests: [ArraySlice<UInt8>]) throws(SASLMechanismError) {
        let ours = Base64.encode(hash.digest(of: offer.downgradeText))
        guard digests.allSatisfy({ $0.elementsEqual(ours) }) else {
            throw SASLMechanismError(
                message: "the server's list of mechanisms or channel bindings was changed on its way to us (XEP-0474): "
                    + "somebody on the network path wants a weaker one"
            )
        }
    }

    /// Checks the server's proof, which comes with its success unless it came before.
    mutating func finish(with data: [UInt8]?) throws(SASLMechanismError) {
        switch (state, data) {
        case (.awaitingSignature(let expected), let data?): try verify(data, expected)
        case (.verified, nil), (.verified, []?): break
        case (.verified, _): throw SASLMechanismError(message: "the server's success holds more than SCRAM has")
        case (.begun, _), (.awaitingChallenge, _), (.deriving, _), (.awaitingSignature, nil):
            throw SASLMechanismError(
                message: "the server accepts us without proof that it knows the secret: it is not the server it claims "
                    + "to be"
            )
        }
    }

    /// Our proof, from the salted password.
    mutating func derived(_ key: Secret) throws(SASLMechanismError) -> [UInt8] {
        guard case .deriving(let first, let challenge) = state else {
            throw SASLMechanismError(message: "a SCRAM key came at a wrong moment")
        }
        let salted = key.bytes
        let withoutProof = Array("c=".utf8) + Base64.encode(binding.input) + Array(",r=".utf8) + first.nonce
        let authenticated = bareFirst + [UInt8(ascii: ",")] + challenge + [UInt8(ascii: ",")] + withoutProof
        let clientKey = hash.code(for: Array("Client Key".utf8), key: salted)
        let signature = hash.code(for: authenticated, key: hash.digest(of: clientKey))
        let proof = zip(clientKey, signature).map { $0 ^ $1 }
        let serverKey = hash.code(for: Array("Server Key".utf8), key: salted)
        state = .awaitingSignature(hash.code(for: authenticated, key: serverKey))
        return withoutProof + Array(",p=".utf8) + Base64.encode(proof)
    }

    /// What an error about channel binding means for the connection.
    private static func meaning(_ condition: String) -> String {
        switch condition {
        case "channel-bindings-dont-match":
            ": the TLS connection that it sees is not ours, so somebody between ends both"
        case "server-does-support-channel-binding":
            ": it offers channel binding, and somebody between took that off its list"
        default: ""
        }
    }

    private mutating func verify(_ message: [UInt8], _ expected: [UInt8]) throws(SASLMechanismError) {
        let value = message.prefix { $0 != UInt8(ascii: ",") }
        if value.starts(with: Array("e=".utf8)) {
            let condition = SCRAM.failures.first { value.dropFirst(2).elementsEqual($0.utf8) } ?? "other-error"
            throw SASLMechanismError(message: "the server ended SCRAM with \(condition)\(SCRAM.meaning(condition))")
        }
        guard value.starts(with: Array("v=".utf8)), let signature = Base64.decode(value.dropFirst(2)),
            ConstantTime.areEqual(signature, expected)
        else {
            throw SASLMechanismError(
                message:
                    "the server's SCRAM signature is wrong: it does not know the secret, so it is not the server it "
                    + "claims to be"
            )
        }
        state = .verified
    }
}

/// The server's first message: `r=nonce,s=salt,i=iterations`, and extensions, ignored except `h`.
struct ServerFirst: Sendable {
    var nonce: [UInt8]
    var salt: [UInt8]
    var iterations: Int
    /// The values of `h`: hashes of the server's offer (XEP-0474).
    var offerDigests: [ArraySlice<UInt8>]

    init(_ message: [UInt8], nonce ours: [UInt8]) throws(SASLMechanismError) {
        guard message.count <= SCRAM.messageLimit else {
            throw SASLMechanismError(message: "the server's SCRAM challenge is longer than any should be")
        }
        let parts = message.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        // RFC 5802 section 5.1: `m` announces an extension that must be understood.
        if parts.first?.starts(with: Array("m=".utf8)) ?? false {
            throw SASLMechanismError(message: "the server wants a SCRAM extension that we do not have")
        }
        guard parts.count >= 3, let nonce = ServerFirst.value("r", of: parts[0]),
            let encodedSalt = ServerFirst.value("s", of: parts[1]), let count = ServerFirst.value("i", of: parts[2])
        else { throw SASLMechanismError(message: "the server's SCRAM challenge is not r=…,s=…,i=…") }
        guard nonce.count > ours.count, nonce.starts(with: ours), nonce.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw SASLMechanismError(
                message: "the server's SCRAM nonce does not go on from ours: an old exchange, or a forged one"
            )
        }
        guard let salt = Base64.decode(encodedSalt), !salt.isEmpty else {
            throw SASLMechanismError(message: "the server's SCRAM salt is not Base64, or empty")
        }
        guard let iterations = count.decimal(most: 9), SCRAM.iterations.contains(iterations) else {
            throw SASLMechanismError(
                message: "the server wants a number of SCRAM iterations outside \(SCRAM.iterations.lowerBound) to "
                    + "\(SCRAM.iterations.upperBound): set the account's password again with the server's iterations "
                    + "inside these"
            )
        }
        self.nonce = Array(nonce)
        self.salt = salt
        self.iterations = iterations
        offerDigests = parts.dropFirst(3).compactMap { ServerFirst.value("h", of: $0) }
    }

    private static func value(_ name: Character, of part: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        part.starts(with: Array("\(name)=".utf8)) ? part.dropFirst(2) : nil
    }
}
