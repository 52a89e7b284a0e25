package import Digests
package import Vocabulary

package enum SASLChoice: Sendable, Equatable {
    /// The secret itself (RFC 4616).
    case plain
    /// The TLS client certificate (RFC 4422 appendix A).
    case external
    /// A proof of the secret (RFC 5802), with its statement about channel binding.
    case scram(HashFunction, ChannelBindingFlag)

    package var name: String {
        switch self {
        case .plain: "PLAIN"
        case .external: "EXTERNAL"
        case .scram(let hash, .bound): "SCRAM-\(hash.name)-PLUS"
        case .scram(let hash, _): "SCRAM-\(hash.name)"
        }
    }

    /// The type of channel binding; nil without one.
    package var binding: ChannelBinding.Kind? {
        if case .scram(_, .bound(let binding)) = self { binding.kind } else { nil }
    }
}

/// The first part of a SCRAM message: the client's statement about channel binding (RFC 5802 section 7).
package enum ChannelBindingFlag: Sendable, Equatable {
    /// `n`: TLS gives us nothing to bind to.
    case unsupported
    /// `y`: we support it and believe that the server does not. One that does must refuse: its offer was removed.
    case notOffered
    /// `p`: the proof is valid for this connection alone.
    case bound(ChannelBinding)

    /// The GS2 header, without another identity (RFC 5801 section 4).
    var header: [UInt8] {
        switch self {
        case .unsupported: Array("n,,".utf8)
        case .notOffered: Array("y,,".utf8)
        case .bound(let binding): Array("p=\(binding.kind.rawValue),,".utf8)
        }
    }

    /// The value that the last message repeats: the header, followed by the binding's data.
    var input: [UInt8] {
        if case .bound(let binding) = self { header + binding.data } else { header }
    }
}

/// Whether a sign-in must be bound to its TLS connection (RFC 5929, RFC 9266).
package enum ChannelBindingRule: String, CaseIterable, Sendable {
    /// Bound where the server offers it, and ever after.
    case preferred
    /// Bound, or by client certificate; else refused.
    case required
}

/// Our conditions for choosing a mechanism.
struct SASLPolicy: Sendable {
    var dialect: Dialect
    var allowsPlain: Bool
    var requiresBinding = false
    var isBindingPinned = false
    var hasCertificate = false
    var hasSecret = true
    /// The channel bindings that TLS provides; none if TLS is not ours.
    var bindings: [ChannelBinding]

    /// The mechanisms that may be used, for a message.
    var names: [String] {
        let external = hasCertificate ? ["EXTERNAL"] : []
        let scram = hasSecret ? SASLPolicy.hashes.map { "SCRAM-\($0.name)" } : []
        let plain = hasSecret && allowsPlain ? ["PLAIN"] : []
        return switch dialect {
        case .ccs: external + plain + scram
        case .xmpp: external + scram + plain
        // A component has no account: its handshake is none of SASL.
        case .component: []
        }
    }

    /// SCRAM's hash functions, best first.
    private static var hashes: [HashFunction] { [.sha512, .sha256, .sha1] }

    /// Why no mechanism is used; see ``NegotiationError/refusal(_:_:_:)``.
    enum Refusal: Error, Equatable {
        case nothingUsable
        case unknownBindings
        case unlistedBindings
        case bindingWithoutMechanism
        case bindingRequired
    }

    /// Chooses the best mechanism of an offer.
    ///
    /// A list shortened on its way is made worthless: it never gets the secret itself, and a proof without channel
    /// binding states that we support it (`y`), which a server that had offered it must refuse.
    func choose(among offer: SASLOffer) throws(Refusal) -> SASLChoice {
        let offered = Set(offer.mechanisms)
        // The operator's own choice; its proof is worthless on any other connection.
        if hasCertificate, offered.contains("EXTERNAL") { return .external }
        guard hasSecret else { throw .nothingUsable }
        guard !requiresBinding, !isBindingPinned else {
            guard let choice = try scram(offer, offered), choice.binding != nil else { throw .bindingRequired }
            return choice
        }
        let hasPlain = allowsPlain && offered.contains("PLAIN")
        // The CCS protocol knows only PLAIN.
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
            // XEP-0440: an offer of binding that can't be used was changed on the path, or is a fault of the server.
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
        // RFC 5802 section 6.1: the type meant if none is named. TLS 1.3 does not have it (RFC 9266), so there a
        // server without a list offers nothing usable; some servers offer it all the same.
        if let unique = bindings.first(where: { $0.kind == .unique }) { return .scram(boundHash, .bound(unique)) }
        return hash.map { SASLChoice.scram($0, .notOffered) } ?? .scram(boundHash, .bound(strongest))
    }
}

extension HashFunction {
    /// Its name in SCRAM's mechanisms.
    var name: String {
        switch self {
        case .sha1: "SHA-1"
        case .sha256: "SHA-256"
        case .sha512: "SHA-512"
        }
    }
}

/// The chosen way to sign in, and the server's offer.
package struct SignIn: Sendable, Equatable {
    package var choice: SASLChoice
    package var offer: SASLOffer

    /// The offered mechanisms, made safe for a log by ``PeerText``.
    package var offeredMechanisms: String {
        let names = PeerText.mechanisms(offer.mechanisms, limit: 300)
        return names.isEmpty ? "none" : names
    }

    /// The offered types of channel binding known here; nil if the server lists none (XEP-0440).
    package var offeredBindings: [String]? {
        offer.bindings.map { types in ChannelBinding.Kind.allCases.map(\.rawValue).filter(types.contains) }
    }

    /// Whether the server offers mechanisms with channel binding without listing its types, and none was chosen.
    package var isBindingUnnamed: Bool {
        guard case .scram(_, .notOffered) = choice else { return false }
        return offer.mechanisms.contains { $0.hasPrefix("SCRAM-") && $0.hasSuffix("-PLUS") }
    }
}
