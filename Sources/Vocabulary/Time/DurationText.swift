/// A duration as people write it: a whole number and one unit, `250ms`, `30s`, `15m`, `12h`, `30d`, `4w`.
package struct DurationText: Hashable, Sendable {
    package enum Unit: String, CaseIterable, Sendable {
        case milliseconds = "ms"
        case seconds = "s"
        case minutes = "m"
        case hours = "h"
        case days = "d"
        case weeks = "w"

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

    /// The number; `Int64.max` if it is too large.
    package var count: Int64
    package var unit: Unit?

    /// Parses ASCII digits and an optional unit; nil for anything else.
    package init?(_ text: some StringProtocol) {
        let digits = text.utf8.prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        guard !digits.isEmpty else { return nil }
        let suffix = String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self)
        unit = Unit(rawValue: suffix)
        guard unit != nil || suffix.isEmpty else { return nil }
        count = Int64(String(decoding: digits, as: UTF8.self)) ?? .max
    }

    /// The duration; nil without a unit (unless 0) and beyond 292,000 years.
    package var duration: Duration? {
        guard let unit else { return count == 0 ? .zero : nil }
        let (product, isTooLong) = count.multipliedReportingOverflow(by: unit.microseconds)
        return isTooLong ? nil : .microseconds(product)
    }
}

extension Duration {
    /// The duration in the largest unit up to days that divides it: `90d`, `36h`, `1500ms`; zero is `0d`.
    package var unitText: String {
        let whole = milliseconds
        for unit in [DurationText.Unit.days, .hours, .minutes, .seconds] where whole % (unit.microseconds / 1000) == 0 {
            return "\(whole / (unit.microseconds / 1000))\(unit.rawValue)"
        }
        return "\(whole)ms"
    }
}
