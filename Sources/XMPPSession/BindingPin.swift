import Synchronization
package import Vocabulary

/// Whether a sender has once signed in with channel binding, which it then must (trust on first use).
package final class BindingPin: Sendable {
    private enum State {
        /// It has not, or it is forgotten. To `fresh`, `kept`.
        case none
        /// It has, and no other worker can know yet. To `kept`.
        case fresh(ChannelBinding.Kind)
        /// So says the database. To `none`.
        case kept
    }

    private let state = Mutex(State.none)

    package init() {}

    package var isSet: Bool { state.withLock { if case .none = $0 { false } else { true } } }

    /// What the database is to be told.
    package var fresh: ChannelBinding.Kind? { state.withLock { if case .fresh(let kind) = $0 { kind } else { nil } } }

    /// Notes a sign-in with channel binding; returns whether it is the first.
    func signedIn(_ kind: ChannelBinding.Kind) -> Bool {
        state.withLock { state in
            guard case .none = state else { return false }
            state = .fresh(kind)
            return true
        }
    }

    /// Notes whether the database has the pin.
    package func read(isKept: Bool) {
        state.withLock { state in
            switch state {
            case _ where isKept: state = .kept
            case .kept: state = .none
            case .none, .fresh: break
            }
        }
    }
}
