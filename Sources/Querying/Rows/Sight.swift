/// Who may see a field of what is stored.
package enum Secrecy: String, Sendable, CaseIterable {
    /// Everybody who may look: what describes a message, what the project's own code wrote.
    case plain
    /// What devices sent, and what handlers said of it: nobody where payloads are hidden, and else without tokens.
    case payload
    /// A registration token: who has the right to it and asks for it, which is recorded.
    case secret
}

/// What somebody may see of what is stored.
package struct Sight: Sendable, Equatable {
    /// Whether registration tokens are shown.
    package var tokens: Bool
    /// Whether what devices sent is shown.
    package var payloads: Bool

    package init(tokens: Bool, payloads: Bool) { (self.tokens, self.payloads) = (tokens, payloads) }

    /// What stands for a text that is not shown.
    package static let hidden = "(hidden)"

    /// A text of a handler, or of who answered it, about a message.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - known: The message's tokens.
    /// - Returns: What may be shown of it.
    package func words(_ text: String, _ known: [String] = []) -> String {
        guard payloads else { return Self.hidden }
        return tokens ? text : TokenText.mask(text, known)
    }

    /// A group of failures: shown whole where it is one of the project's own, whatever is hidden.
    package func group(_ text: String, _ known: [String] = []) -> String {
        FailureGroups.areOwn(text) ? text : words(text, known)
    }

    /// Whether a group can be named in a filter: by others' groups, where payloads are hidden, one would find out what they hold.
    package func mayName(group: String?) -> Bool { payloads || group.map(FailureGroups.areOwn) != false }
}

/// The error groups that the project's own code names; every other one is made from a handler's words.
enum FailureGroups {
    private static let known: Set<String> = [
        "timeout", "message gone", "worker crashed", "cancelled by operator", "retry asked for", "unknown",
        "webhook timeout", "webhook connection failed", "exec answer out of shape", "exec program can not be started",
        "exec program ended before it answered", "exec program wrote more than one line for a message",
        "exec program gave no answer in time and was killed", "exec program was stopped", "plugin can not be loaded",
        "plugin ended before it answered", "plugin gave no answer in time", "plugin host ended",
        "plugin set no outcome",
        "plugin set an unknown outcome", "plugin says it can not work now",
    ]

    static func areOwn(_ group: String) -> Bool {
        if known.contains(group) { return true }
        let words = group.split(separator: " ", omittingEmptySubsequences: false)
        let isCode = words.last.map { $0.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) } }
        // `webhook status 503`, `status 503`, `sql 23505`.
        return switch words.dropLast() {
        case ["webhook", "status"], ["status"]: isCode == true && words.last?.utf8.count == 3
        case ["sql"]: isCode == true && words.last?.utf8.count == 5
        default: false
        }
    }
}
