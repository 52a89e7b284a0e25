import FoundationEssentials
import UpstreamKit

/// What a long-lived subprocess answers to a message: one JSON object on one line.
enum ExecAnswer {
    private struct Object: Decodable {
        var outcome: String
        var after: String?
        var reason: String?
        var message_key: String?
    }

    /// Reads an answer.
    ///
    /// - Parameters:
    ///   - line: The line without its newline.
    ///   - key: The message that was asked about; an answer may repeat it as `message_key`, and then it must match.
    /// - Returns: nil for a line of any other shape.
    static func parse(_ line: [UInt8], about key: MessageKey) -> HandlerOutcome? {
        guard let object = try? JSONDecoder().decode(Object.self, from: Data(line)) else { return nil }
        if let named = object.message_key, MessageKey(named) != key { return nil }
        switch object.outcome {
        case "done": return .done
        case "retry":
            guard let after = object.after else { return .retry(after: nil, reason: object.reason) }
            guard let wait = DurationText.parse(after) else { return nil }
            return .retry(after: wait, reason: object.reason)
        case "reject": return .reject(reason: object.reason ?? "rejected without a reason")
        default: return nil
        }
    }
}

/// Durations as the configuration writes them: `250ms`, `30s`, `15m`, `12h`, `30d`.
enum DurationText {
    /// The duration, or nil for any other text and for more than 366 days.
    static func parse(_ text: String) -> Duration? {
        let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
        guard (1...12).contains(digits.count), let number = Int64(String(digits) ?? "") else { return nil }
        let unit: Int64
        switch String(text.utf8.dropFirst(digits.count)) {
        case "ms": unit = 1
        case "s": unit = 1000
        case "m": unit = 60_000
        case "h": unit = 3_600_000
        case "d": unit = 86_400_000
        default: return nil
        }
        let (milliseconds, overflow) = number.multipliedReportingOverflow(by: unit)
        guard !overflow, milliseconds <= 366 * 86_400_000 else { return nil }
        return .milliseconds(milliseconds)
    }
}
