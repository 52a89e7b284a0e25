package import Digests

/// Which of a server's mechanisms is taken, and how.
package enum SASLChoice: Sendable, Equatable {
    /// The secret itself (RFC 4616).
    case plain
    /// The certificate that TLS has shown (RFC 4422 appendix A).
    case external
    /// A proof of the secret (RFC 5802), and what it says about channel binding.
    case scram(HashFunction, ChannelBindingFlag)

    /// The registered name.
    package var name: String {
        switch self {
        case .plain: "PLAIN"
        case .external: "EXTERNAL"
        case .scram(let hash, .bound): "SCRAM-\(hash.name)-PLUS"
        case .scram(let hash, _): "SCRAM-\(hash.name)"
        }
    }

    /// The type of channel binding; nil where there is none.
    package var binding: ChannelBinding.Kind? {
        if case .scram(_, .bound(let binding)) = self { binding.kind } else { nil }
    }
}

/// What decides about a mechanism on our side.
struct SASLPolicy: Sendable {
    /// Which kind of server the peer is.
    var dialect: Dialect
    /// Whether the secret itself may be sent.
    var allowsPlain: Bool
    /// Whether TLS shows a certificate of ours.
    var hasCertificate = false
    /// Whether there is a secret.
    var hasSecret = true
    /// What TLS gives to bind to; none where TLS is not ours.
    var bindings: [ChannelBinding]

    /// The mechanisms that may be used, for a message.
    var names: [String] {
        let external = hasCertificate ? ["EXTERNAL"] : []
        let scram = hasSecret ? SASLPolicy.hashes.map { "SCRAM-\($0.name)" } : []
        let plain = hasSecret && allowsPlain ? ["PLAIN"] : []
        return switch dialect {
        case .ccs: external + plain + scram
        case .xmpp: external + scram + plain
        // A component has no account: see ``ComponentNegotiation``.
        case .component: []
        }
    }

    /// SCRAM's hash functions, the best first.
    private static var hashes: [HashFunction] { [.sha512, .sha256, .sha1] }

    /// Why no mechanism is taken.
    enum Refusal: Error, Equatable {
        /// The server offers none that may be used.
        case nothingUsable
        /// It offers channel binding, by types alone that TLS does not give here.
        case unknownBindings
        /// It offers channel binding by the extensible profile and does not say by which types, as it must.
        case unlistedBindings
        /// It lists types of channel binding, and no mechanism that could use them.
        case bindingWithoutMechanism
    }

    /// The best of what is offered.
    ///
    /// What was taken is not remembered, so a list that somebody has shortened is not noticed as such. It is made worthless
    /// otherwise: it never gets the secret itself, and a proof without channel binding says that we could bind (`y`), which a
    /// server that had offered it must refuse.
    func choose(among offer: SASLOffer) throws(Refusal) -> SASLChoice {
        let offered = Set(offer.mechanisms)
        // The operator's own choice; what it proves is worth nothing on any other connection.
        if hasCertificate, offered.contains("EXTERNAL") { return .external }
        guard hasSecret else { throw .nothingUsable }
        let hasPlain = allowsPlain && offered.contains("PLAIN")
        // The CCS protocol speaks of PLAIN alone.
        if hasPlain, dialect == .ccs { return .plain }
        if let choice = try scram(offer, offered) { return choice }
        guard hasPlain else { throw .nothingUsable }
        return .plain
    }

    private func scram(_ offer: SASLOffer, _ offered: Set<String>) throws(Refusal) -> SASLChoice? {
        let hash = SASLPolicy.hashes.first { offered.contains("SCRAM-\($0.name)") }
        let boundHash = SASLPolicy.hashes.first { offered.contains("SCRAM-\($0.name)-PLUS") }
        guard let strongest = bindings.first else { return hash.map { SASLChoice.scram($0, .unsupported) } }
        guard let boundHash else {
            // XEP-0440: an offer of binding that can't be taken up was changed on the path, or is a fault of the server.
            if hash != nil, let types = offer.bindings, !types.isEmpty { throw .bindingWithoutMechanism }
            return hash.map { SASLChoice.scram($0, .notOffered) }
        }
        if let types = offer.bindings {
            guard let common = bindings.first(where: { types.contains($0.kind.rawValue) }) else {
                throw .unknownBindings
            }
            return .scram(boundHash, .bound(common))
        }
        // XEP-0440: a list is part of the extensible profile.
        guard offer.profile == .core else { throw .unlistedBindings }
        // RFC 5802 section 6.1: the type that is meant where none is named. TLS 1.3 does not have it (RFC 9266), so there a
        // server without a list has nothing that could be taken up; servers are known that offer it all the same.
        if let unique = bindings.first(where: { $0.kind == .unique }) { return .scram(boundHash, .bound(unique)) }
        return hash.map { SASLChoice.scram($0, .notOffered) } ?? .scram(boundHash, .bound(strongest))
    }
}

extension HashFunction {
    /// As SCRAM's mechanisms are named after it.
    var name: String {
        switch self {
        case .sha1: "SHA-1"
        case .sha256: "SHA-256"
        case .sha512: "SHA-512"
        }
    }
}
