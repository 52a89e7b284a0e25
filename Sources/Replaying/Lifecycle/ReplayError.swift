package struct ReplayError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        case unknown
        /// Its state, or another replay, forbids it.
        case refused
        case unavailable
        /// The target rejects us: credentials, permissions.
        case denied
        case invalid
    }

    package var kind: Kind
    package var message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    package var description: String { message }
}
