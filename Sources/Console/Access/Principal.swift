/// What somebody may do.
package enum ConsoleRole: String, Sendable, Equatable, CaseIterable {
    /// Sees messages as configured: tokens masked, payloads shown or not.
    case viewer
    /// Sees the same, and acts.
    case operator_ = "operator"
    /// Sees the same, reveals registration tokens, and reads the audit trail; does not act.
    case auditor
}

/// Who sent a request, as far as it was proven.
package struct Principal: Sendable, Equatable {
    /// The name that the audit trail shows.
    package var name: String
    /// What they may do.
    package var role: ConsoleRole

    package init(name: String, role: ConsoleRole) {
        self.name = name
        self.role = role
    }
}
