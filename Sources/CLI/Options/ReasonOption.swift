import ArgumentParser
import MessageStore

/// The reason of a command that is recorded in the audit trail.
struct ReasonOption: ParsableArguments {
    @Option(help: "The reason, for the audit trail.")
    var reason: String?

    /// The author of the command's audit entry.
    var author: AuditAuthor { .command(reason) }
}

extension AuditAuthor {
    /// The author of a command: the operating system's user and host; the database adds the role.
    static func command(_ reason: String?) -> AuditAuthor {
        AuditAuthor(ReplayCommand.who, via: .command, reason: reason)
    }
}
