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

    /// Whether the server offers mechanisms with channel binding without listing its types, and none of them was
    /// chosen.
    package var isBindingUnnamed: Bool {
        guard case .scram(_, .notOffered) = choice else { return false }
        return offer.mechanisms.contains { $0.hasPrefix("SCRAM-") && $0.hasSuffix("-PLUS") }
    }
}
