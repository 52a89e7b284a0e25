/// How a connection signs in, and what it could choose from.
package struct SignIn: Sendable, Equatable {
    /// What was chosen.
    package var choice: SASLChoice
    /// What the server offered.
    package var offer: SASLOffer

    /// The offered mechanisms, made fit for a log by ``PeerText``.
    package var offeredMechanisms: String {
        let names = PeerText.mechanisms(offer.mechanisms, limit: 300)
        return names.isEmpty ? "none" : names
    }

    /// The offered types of channel binding that are known here; nil where the server lists none (XEP-0440).
    package var offeredBindings: [String]? {
        offer.bindings.map { types in ChannelBinding.Kind.allCases.map(\.rawValue).filter(types.contains) }
    }

    /// Whether the server offers mechanisms that bind, without a word by which types, and none of them was taken.
    package var isBindingUnnamed: Bool {
        guard case .scram(_, .notOffered) = choice else { return false }
        return offer.mechanisms.contains { $0.hasPrefix("SCRAM-") && $0.hasSuffix("-PLUS") }
    }
}
