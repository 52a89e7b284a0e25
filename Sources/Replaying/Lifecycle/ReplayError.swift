/// Why a replay can't be planned, or can't continue.
package struct ReplayError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        case unknown
        /// Its state, or another replay, forbids it.
        case refused
        /// The target can't be reached.
        case unavailable
        /// The target rejects us: credentials, permissions.
        case denied
        /// The file, or the request, is malformed.
        case invalid
    }

    package var kind: Kind
    /// The cause, and what to do about it.
    package var message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    package var description: String { message }
}
