/// A duration as people write it: a whole number and one unit, `250ms`, `30s`, `15m`, `12h`, `30d`, `4w`.
///
/// Each reader has limits of its own; they see what was written as well as how long it is.
package struct DurationText: Hashable, Sendable {
    /// What the number counts.
    package enum Unit: String, CaseIterable, Sendable {
        /// Milliseconds.
        case milliseconds = "ms"
        /// Seconds.
        case seconds = "s"
        /// Minutes.
        case minutes = "m"
        /// Hours.
        case hours = "h"
        /// Days of 24 hours.
        case days = "d"
        /// Weeks.
        case weeks = "w"

        /// The unit in microseconds.
        package var microseconds: Int64 {
            switch self {
            case .milliseconds: 1_000
            case .seconds: 1_000_000
            case .minutes: 60_000_000
            case .hours: 3_600_000_000
            case .days: 86_400_000_000
            case .weeks: 604_800_000_000
            }
        }
    }

    /// The number; the greatest there is stands for a text that is too long to be read as one.
    package var count: Int64
    /// The unit; nil where none was written.
    package var unit: Unit?

    /// Reads a number and a unit; nil where the text is anything else.
    ///
    /// - Parameter text: ASCII digits and the unit, nothing before, between or after.
    package init?(_ text: some StringProtocol) {
        let digits = text.utf8.prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        guard !digits.isEmpty else { return nil }
        let suffix = String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self)
        unit = Unit(rawValue: suffix)
        guard unit != nil || suffix.isEmpty else { return nil }
        count = Int64(String(decoding: digits, as: UTF8.self)) ?? .max
    }

    /// How long it is; nil without a unit (unless it is 0), or beyond 292,000 years.
    package var duration: Duration? {
        guard let unit else { return count == 0 ? .zero : nil }
        let (product, isTooLong) = count.multipliedReportingOverflow(by: unit.microseconds)
        return isTooLong ? nil : .microseconds(product)
    }
}

extension Duration {
    /// The duration in the largest unit up to days that divides it, in whole milliseconds: `90d`, `36h`, `1500ms`.
    ///
    /// Zero is `0d`.
    package var unitText: String {
        let whole = milliseconds
        for unit in [DurationText.Unit.days, .hours, .minutes, .seconds] where whole % (unit.microseconds / 1000) == 0 {
            return "\(whole / (unit.microseconds / 1000))\(unit.rawValue)"
        }
        return "\(whole)ms"
    }
}
