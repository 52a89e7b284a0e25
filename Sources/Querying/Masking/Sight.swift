/// Who may see a stored field.
package enum Secrecy: String, Sendable, CaseIterable {
    /// Everybody with access: a message's metadata, and texts of the project's own code.
    case plain
    /// What devices sent and handlers said of it: hidden where payloads are, otherwise shown without tokens.
    case payload
    /// A registration token: shown to those with the right to it on request, which is recorded.
    case secret
}

package struct Sight: Sendable, Equatable {
    package var tokens: Bool
    package var payloads: Bool

    package init(tokens: Bool, payloads: Bool) { (self.tokens, self.payloads) = (tokens, payloads) }

    /// Whether a stored value of this secrecy is shown.
    package func shows(_ secrecy: Secrecy) -> Bool {
        switch secrecy {
        case .plain: true
        // Nor its hash: it would confirm a guess at what was sent.
        case .payload: payloads
        case .secret: tokens
        }
    }

    /// Whether tokens within a stored value of this secrecy are masked: a device sent it as a payload.
    func masks(_ secrecy: Secrecy) -> Bool { secrecy == .payload && !tokens }

    package static let hidden = "(hidden)"

    /// What may be shown of a text by a handler, or by what it called, about a message with these tokens.
    package func words(_ text: String, _ known: [String] = []) -> String {
        guard payloads else { return Self.hidden }
        return tokens ? text : TokenText.mask(text, known)
    }

    /// An error group: shown whole if it is one of the project's own, whatever is hidden.
    package func group(_ text: String, _ known: [String] = []) -> String {
        FailureGroups.areOwn(text) ? text : words(text, known)
    }

    /// Whether a filter may name a group: where payloads are hidden, filtering by handlers' groups would reveal them.
    package func mayName(group: String?) -> Bool { payloads || group.map(FailureGroups.areOwn) != false }
}

/// Error groups named by the project's own code; every other is made from a handler's words.
enum FailureGroups {
    private static let known: Set<String> = [
        "timeout", "message gone", "worker crashed", "cancelled by operator", "retry asked for", "unknown",
        "rejected without a reason", "sql no SQLSTATE",
        "webhook timeout", "webhook connection failed", "webhook connection closed", "webhook answer malformed",
        "webhook answer", "webhook failed", "webhook rejected", "webhook name not resolved", "webhook address refused",
        "webhook plain http refused", "webhook secret can not be used", "webhook headers can not be used",
        "exec answer out of shape", "exec program can not be started", "exec program reads no message",
        "exec program ended before it answered", "exec program ended repeatedly",
        "exec program wrote more than one line for a message",
        "exec program answered a line over the limit of 65536 bytes",
        "exec program gave no answer in time and was killed", "exec program was stopped",
        "exec exit 65 rejected the message", "exec exit 75 asked for a retry",
        "plugin can not be loaded", "plugin ended before it answered", "plugin gave no answer in time",
        "plugin host ended", "plugin host ended repeatedly",
        "plugin set no outcome", "plugin set an unknown outcome", "plugin says it can not work now",
    ]

    /// How a webhook's TLS failed: the codes of `TLSError`.
    private static let ofTLS: Set<Substring> = [
        "hostname_mismatch", "expired", "not_yet_valid", "untrusted", "self_signed", "protocol_version",
        "plaintext_peer", "handshake_failed", "alert_received", "protocol_violation", "pending_write_overflow",
        "misconfigured", "internal",
    ]

    static func areOwn(_ group: String) -> Bool {
        if known.contains(group) { return true }
        let words = group.split(separator: " ", omittingEmptySubsequences: false)
        let isCode = words.last.map { $0.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) } }
        // `webhook status 503`, `status 503`, `sql 23505`, `exec exit 1`, `exec signal 11`, `webhook tls_expired`.
        return switch words.dropLast() {
        case ["webhook", "status"], ["status"]: isCode == true && words.last?.utf8.count == 3
        case ["sql"]: isCode == true && words.last?.utf8.count == 5
        case ["exec", "exit"], ["exec", "signal"]: words.last.flatMap { UInt8($0) } != nil
        case ["webhook"]: words.last.map { $0.hasPrefix("tls_") && ofTLS.contains($0.dropFirst(4)) } == true
        default: false
        }
    }
}
