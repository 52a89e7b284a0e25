import ArgumentParser
import Vocabulary

/// A duration as the configuration writes it: `250ms`, `30s`, `15m`, `12h`, `30d`.
struct DurationArgument: ExpressibleByArgument {
    /// Whole microseconds, at least 1.
    let microseconds: Int64

    /// The same as a duration.
    var duration: Duration { .microseconds(microseconds) }

    /// A default of so many seconds.
    init(seconds: Int64) { microseconds = seconds * 1_000_000 }

    var defaultValueDescription: String { "\(microseconds / 1_000_000)s" }

    init?(argument: String) {
        // A hundred years is more than anybody means.
        guard let text = DurationText(argument), text.count > 0, text.unit != .weeks, let duration = text.duration,
            duration <= .seconds(36_525 * 86_400)
        else { return nil }
        microseconds = duration.microseconds
    }
}
