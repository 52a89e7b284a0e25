import ArgumentParser
import Vocabulary

/// A duration as the configuration writes it: `250ms`, `30s`, `15m`, `12h`, `30d`.
struct DurationArgument: ExpressibleByArgument {
    /// At least 1.
    let microseconds: Int64

    var duration: Duration { .microseconds(microseconds) }

    /// A default in seconds.
    init(seconds: Int64) { microseconds = seconds * 1_000_000 }

    var defaultValueDescription: String { "\(microseconds / 1_000_000)s" }

    init?(argument: String) {
        // More than a hundred years is a mistake.
        guard let text = DurationText(argument), text.count > 0, text.unit != .weeks, let duration = text.duration,
            duration <= .seconds(36_525 * 86_400)
        else { return nil }
        microseconds = duration.microseconds
    }
}
