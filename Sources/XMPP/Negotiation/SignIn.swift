/// How a connection signs in, and what it could choose from.
package struct SignIn: Sendable, Equatable {
    /// What was chosen.
    package var choice: SASLChoice
    /// What the server offered.
    package var offer: SASLOffer

    /// The offered mechanisms, made fit for a log by ``PeerText``.
    package var offeredMechanisms: String { PeerText.mechanisms(offer.mechanisms) }

    /// The offered types of channel binding that are known here; nil where the server lists none (XEP-0440).
    package var offeredBindings: [String]? {
        offer.bindings.map { types in ChannelBinding.Kind.allCases.map(\.rawValue).filter(types.contains) }
    }
}
