/// What a word of a state or of a result means for whoever has to act; on a terminal it has a colour.
enum Tone: String {
    /// All is well.
    case good = "32"
    /// Somebody should look.
    case warning = "33"
    /// Something failed.
    case bad = "31"

    /// The tone of a state as the commands write it: `failing, next probe in 24 s`, `2. retry`, `1 WRONG`.
    ///
    /// - Parameter state: The state, its first word first, or behind a number; nil for what is neither good nor bad.
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

    /// A text in its colour.
    func painted(_ text: some StringProtocol) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }
}
