/// Numbers formatted for people; the minus sign is `-` on a terminal, and pages may pass another.
package enum Amount {
    /// A count with its noun in singular or plural: `1 sender`, `2,000 deliveries`.
    package static func counted(_ number: some BinaryInteger, _ noun: String, plural: String? = nil) -> String {
        number == 1 ? "1 \(noun)" : "\(count(number)) \(plural ?? noun + "s")"
    }

    /// A whole number with digits grouped by three: `1,234,567`.
    package static func count(_ number: some BinaryInteger, minus: String = "-") -> String {
        let digits = String(number.magnitude)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return number < 0 ? minus + text : text
    }

    /// An estimate from the catalog, `~1,234`; `?` if there is none.
    package static func estimate(_ number: Int64?) -> String { number.map { "~" + count($0) } ?? "?" }

    /// A size in bytes: `512 B`, `1.5 MiB`.
    package static func bytes(_ number: Int64) -> String {
        guard number >= 1024 else { return "\(number) B" }
        var size = Double(number) / 1024
        var units = ["KiB", "MiB", "GiB", "TiB"][...]
        while size >= 1024, units.count > 1 {
            size /= 1024
            units = units.dropFirst()
        }
        return decimal(size) + " " + (units.first ?? "")
    }

    /// A number with one decimal below 100 and none above; a dash for magnitudes from 10^15.
    package static func decimal(_ number: Double, minus: String = "-") -> String {
        guard abs(number) < 1e15 else { return "–" }
        guard abs(number) < 99.95 else { return count(Int64(number.rounded()), minus: minus) }
        let tenths = Int64((number * 10).rounded())
        let text = "\(abs(tenths) / 10).\(abs(tenths) % 10)"
        return (tenths < 0 ? minus : "") + (text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
    }

    /// An end time relative to now: `ends in 12 d`, `ended 3 d ago`.
    package static func ending(_ seconds: Int) -> String {
        seconds < 0 ? "ended \(time(Double(-seconds))) ago" : "ends in \(time(Double(seconds)))"
    }

    /// A duration in its largest unit: `12 ms`, `4 s`, `3 min`, `5.2 h`, `12 d`.
    package static func time(_ seconds: Double) -> String {
        switch seconds {
        case ...0: "0 s"
        case ..<0.000_999_5: decimal(seconds * 1_000_000) + " µs"
        case ..<0.999_5: decimal(seconds * 1_000) + " ms"
        case ..<90: decimal(seconds) + " s"
        case ..<5_400: decimal(seconds / 60) + " min"
        case ..<172_800: decimal(seconds / 3_600) + " h"
        default: decimal(seconds / 86_400) + " d"
        }
    }
}
