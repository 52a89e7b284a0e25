import Vocabulary

/// Numbers, sizes and times as the pages show them.
enum Figures {
    /// A whole number with its digits in groups of three: `1,234,567`.
    static func count(_ number: some BinaryInteger) -> String {
        let digits = String(number.magnitude)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return number < 0 ? "−" + text : text
    }

    /// A count that stopped at a limit: `100,000+`.
    static func count(_ number: some BinaryInteger, limit: Int) -> String {
        count(number) + (number >= limit ? "+" : "")
    }

    /// A number with its noun: `1 message`, `2 messages`.
    static func count(_ number: some BinaryInteger, _ singular: String, _ plural: String? = nil) -> String {
        count(number) + " " + (number == 1 ? singular : plural ?? singular + "s")
    }

    /// An estimate, `~1,234`; a dash where there is none.
    static func estimate(_ number: Int64?) -> String { number.map { "~" + count($0) } ?? "–" }

    /// A size in bytes: `512 B`, `1.5 MiB`.
    static func bytes(_ number: Int64) -> String {
        guard number >= 1024 else { return "\(number) B" }
        var size = Double(number) / 1024
        var units = ["KiB", "MiB", "GiB", "TiB"][...]
        while size >= 1024, units.count > 1 {
            size /= 1024
            units = units.dropFirst()
        }
        return decimal(size) + " " + (units.first ?? "")
    }

    /// A number with one decimal below 100, and none from there on.
    static func decimal(_ number: Double) -> String {
        guard abs(number) < 1e15 else { return "–" }
        guard abs(number) < 99.95 else { return count(Int64(number.rounded())) }
        let tenths = Int64((number * 10).rounded())
        let text = "\(abs(tenths) / 10).\(abs(tenths) % 10)"
        return (tenths < 0 ? "−" : "") + (text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
    }

    /// A length of time in its largest unit: `12 ms`, `4 s`, `3 min`, `5.2 h`, `12 d`.
    static func length(_ duration: Duration) -> String { length(seconds: duration.inSeconds) }

    /// The same of seconds.
    static func length(seconds: Double) -> String {
        switch seconds {
        case ...0: "0 s"
        case ..<0.001: decimal(seconds * 1_000_000) + " µs"
        case ..<1: decimal(seconds * 1_000) + " ms"
        case ..<90: decimal(seconds) + " s"
        case ..<5_400: decimal(seconds / 60) + " min"
        case ..<172_800: decimal(seconds / 3_600) + " h"
        default: decimal(seconds / 86_400) + " d"
        }
    }

    /// How far a moment is from now: `4 s ago`, `in 3 min`.
    static func age(of time: Timestamp, now: Timestamp) -> String {
        let distance = (now - time).inSeconds
        if abs(distance) < 1 { return "now" }
        return distance > 0 ? length(seconds: distance) + " ago" : "in " + length(seconds: -distance)
    }

    /// A moment to the second in UTC: `2026-01-31 23:59:59`.
    static func moment(_ time: Timestamp) -> String { time.date + " " + time.timeOfDay }

    /// A share of a whole: `0.3%`, `42%`, `100%` only for all of it.
    static func share(_ part: Int64, of whole: Int64) -> String {
        guard whole > 0 else { return "0%" }
        if part >= whole { return "100%" }
        return decimal(min(99.9, Double(part) / Double(whole) * 100)) + "%"
    }
}
