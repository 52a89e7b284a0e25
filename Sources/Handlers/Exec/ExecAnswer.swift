import FoundationEssentials
import UpstreamKit
import Vocabulary

/// A long-lived subprocess's answer to a message: one JSON object on one line.
enum ExecAnswer {
    private struct Object: Decodable {
        var outcome: String
        var after: String?
        var reason: String?
        var message_key: String?
    }

    /// Parses a line without its newline; nil for any other shape, and for the `message_key` of another message.
    static func parse(_ line: [UInt8], about key: MessageKey) -> HandlerOutcome? {
        guard let object = try? JSONDecoder().decode(Object.self, from: Data(line)) else { return nil }
        if let named = object.message_key, MessageKey(named) != key { return nil }
        switch object.outcome {
        case "done": return .done
        case "retry":
            guard let after = object.after else { return .retry(after: nil, reason: object.reason) }
            guard let wait = Self.wait(after) else { return nil }
            return .retry(after: wait, reason: object.reason)
        case "reject": return .reject(reason: object.reason ?? "rejected without a reason")
        default: return nil
        }
    }

    /// The wait that an answer requests, as in the configuration; nil for other text, and over 366 days.
    static func wait(_ text: String) -> Duration? {
        guard let text = DurationText(text), text.unit != nil, text.unit != .weeks, let wait = text.duration,
            wait <= .seconds(366 * 86_400)
        else { return nil }
        return wait
    }
}
