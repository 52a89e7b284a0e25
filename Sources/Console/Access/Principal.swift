package import UpstreamConfiguration

package typealias ConsoleRole = ConsoleConfiguration.Role

extension ConsoleRole {
    /// Its name in the configuration and on pages.
    var word: String { rawValue }
}

/// A right that a route requires.
package enum ConsoleRight: String, Sendable, Equatable, CaseIterable {
    case read
    /// Changing something: pausing, retrying, discarding, replaying.
    case act
    /// Seeing registration tokens. No role includes it: it is granted to a token or a proxy's role separately.
    case reveal
    case audit
}

/// The authenticated sender of a request.
package struct Principal: Sendable, Equatable {
    /// The name that the audit trail shows.
    package var name: String
    package var role: ConsoleRole
    /// Whether they may see registration tokens, whatever the role.
    package var reveals: Bool

    package init(name: String, role: ConsoleRole, reveals: Bool = false) {
        self.name = name
        self.role = role
        self.reveals = reveals
    }

    /// Compares names as bytes, as the audit trail and idempotency keys do: `String` equates texts that differ only in
    /// normalisation.
    package static func == (lhs: Principal, rhs: Principal) -> Bool {
        lhs.name.utf8.elementsEqual(rhs.name.utf8) && lhs.role == rhs.role && lhs.reveals == rhs.reveals
    }

    package func may(_ right: ConsoleRight) -> Bool {
        switch right {
        case .read: true
        case .act: role == .operator_
        case .audit: role != .viewer
        case .reveal: reveals
        }
    }
}
