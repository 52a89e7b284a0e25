/// What somebody may do in general.
package enum ConsoleRole: String, Sendable, Equatable, CaseIterable {
    /// Sees messages as configured: tokens masked, payloads shown or not.
    case viewer
    /// Sees the same and the audit trail, and acts.
    case operator_ = "operator"
    /// Sees the same and the audit trail; does not act.
    case auditor
}

/// What a route asks for before it does anything.
package enum ConsoleRight: String, Sendable, Equatable, CaseIterable {
    /// Looking at what is stored.
    case read
    /// Changing something: pausing, retrying, discarding, replaying.
    case act
    /// Seeing a registration token. No role holds it: it is given to a token or a proxy's role by itself.
    case reveal
    /// Reading the audit trail.
    case audit
}

/// Who sent a request, as far as it was proven.
package struct Principal: Sendable, Equatable {
    /// The name that the audit trail shows.
    package var name: String
    /// What they may do.
    package var role: ConsoleRole
    /// Whether they may see registration tokens, whatever the role.
    package var reveals: Bool

    package init(name: String, role: ConsoleRole, reveals: Bool = false) {
        self.name = name
        self.role = role
        self.reveals = reveals
    }

    /// Names are compared as bytes, as the audit trail and the keys of repeated requests have them: `String` calls texts
    /// equal that differ in their normalisation.
    package static func == (lhs: Principal, rhs: Principal) -> Bool {
        lhs.name.utf8.elementsEqual(rhs.name.utf8) && lhs.role == rhs.role && lhs.reveals == rhs.reveals
    }

    /// Whether they have a right.
    package func may(_ right: ConsoleRight) -> Bool {
        switch right {
        case .read: true
        case .act: role == .operator_
        case .audit: role != .viewer
        case .reveal: reveals
        }
    }
}
