import Glibc
import Vocabulary

/// A moment of the wall clock, to the microsecond.
package struct UTCTime: Sendable, Equatable {
    /// Microseconds since 1970-01-01 UTC.
    package var microseconds: Int64

    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// The moment it is.
    package static var now: UTCTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UTCTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    /// RFC 3339 with six decimals: `2026-01-31T23:59:59.123456Z`.
    package var rfc3339: String {
        let (day, time) = split
        let (year, month, date) = Self.civil(day: day)
        let fraction = Self.padded(Int(microseconds - (day * 86_400 + Int64(time)) * 1_000_000), 6)
        return
            "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(date, 2))T\(Self.clock(time)).\(fraction)Z"
    }

    /// The time of day alone, for people: `23:59:59`.
    package var timeOfDay: String { Self.clock(split.time) }

    /// Days since 1970-01-01, and seconds since that day's midnight.
    private var split: (day: Int64, time: Int) {
        let seconds = microseconds >= 0 ? microseconds / 1_000_000 : (microseconds - 999_999) / 1_000_000
        let day = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        return (day, Int(seconds - day * 86_400))
    }

    private static func clock(_ seconds: Int) -> String {
        "\(padded(seconds / 3600, 2)):\(padded(seconds / 60 % 60, 2)):\(padded(seconds % 60, 2))"
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// The proleptic Gregorian date of a day counted from 1970-01-01.
    ///
    /// Counted in eras of 400 years (146,097 days) that begin on 1 March, so that the leap day is a year's last.
    private static func civil(day: Int64) -> (year: Int, month: Int, date: Int) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (Int(year), Int(month), Int(dayOfYear - (153 * monthFromMarch + 2) / 5 + 1))
    }
}
