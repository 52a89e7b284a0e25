import Vocabulary

/// Numbers, sizes and times in the form of the pages.
enum Figures {
    private static let minus = "−"

    /// An integer in groups of three digits: `1,234,567`.
    static func count(_ number: some BinaryInteger) -> String { Amount.count(number, minus: minus) }

    /// A count that stopped at a limit: `100,000+`.
    static func count(_ number: some BinaryInteger, limit: Int) -> String {
        count(number) + (number >= limit ? "+" : "")
    }

    /// An estimate, `~1,234`, or a dash.
    static func estimate(_ number: Int64?) -> String { number.map { "~" + count($0) } ?? "–" }

    /// A number, below 100 with one decimal.
    static func decimal(_ number: Double) -> String { Amount.decimal(number, minus: minus) }

    /// A duration in its largest unit: `12 ms`, `4 s`, `3 min`, `5.2 h`, `12 d`.
    static func length(_ duration: Duration) -> String { Amount.time(duration.inSeconds) }

    /// A moment relative to now: `4 s ago`, `in 3 min`.
    static func age(of time: Timestamp, now: Timestamp) -> String {
        let distance = (now - time).inSeconds
        if abs(distance) < 1 { return "now" }
        return distance > 0 ? Amount.time(distance) + " ago" : "in " + Amount.time(-distance)
    }

    /// A percentage: `0.3%`, `42%`; `100%` only for the whole.
    static func share(_ part: Int64, of whole: Int64) -> String {
        guard whole > 0 else { return "0%" }
        if part >= whole { return "100%" }
        return decimal(min(99.9, Double(part) / Double(whole) * 100)) + "%"
    }
}
