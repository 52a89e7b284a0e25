import ArgumentParser
import MessageStore

/// The reason of a command that is recorded in the audit trail.
struct ReasonOption: ParsableArguments {
    @Option(help: "The reason, for the audit trail.")
    var reason: String?

    /// Who runs the command, and why.
    var author: AuditAuthor { .command(reason) }
}

extension AuditAuthor {
    /// Who runs the command: the operating system's user, and the host; the database adds the role.
    static func command(_ reason: String?) -> AuditAuthor {
        AuditAuthor(ReplayCommand.who, via: .command, reason: reason)
    }
}
