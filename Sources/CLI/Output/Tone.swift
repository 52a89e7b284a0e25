/// How urgent a state or result is; shown as a colour on a terminal.
enum Tone: String {
    /// All is well.
    case good = "32"
    /// Needs attention.
    case warning = "33"
    /// Failed.
    case bad = "31"

    /// The tone of a state's text, such as `failing, next probe in 24 s`, `2. retry`, `1 WRONG`; nil if it is neutral.
    init?(state: String) {
        if state.hasPrefix("0 ") { return nil }
        let word = state.split { !$0.isLetter }.first.map(String.init) ?? ""
        switch word {
        case "ok", "active", "done", "finished": self = .good
        case "critical", "FAILED", "failed", "failing", "WRONG", "rejected", "exhausted": self = .bad
        case "warning", "warnings", "paused", "held", "unclaimed", "retry", "postponed", "pending", "released":
            self = .warning
        default:
            guard state.contains("no process runs it") else { return nil }
            self = .warning
        }
    }

    func painted(_ text: some StringProtocol) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }
}
