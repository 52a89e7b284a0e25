/// The response header `Retry-After` (RFC 9110 §10.2.3).
package enum RetryAfter {
    /// The longest wait an endpoint can request, in seconds.
    package static let maximum: Int64 = 86_400

    /// The longest time for which an endpoint can request to get nothing at all.
    package static let longestHold = Duration.seconds(3600)

    /// The wait that `Retry-After` requests, by the response's `Date`, since the server's dates go by its own clock.
    package static func wait(
        _ value: String?,
        date: String?,
        now: Int64 = Timestamp.now.microseconds / 1_000_000
    ) -> Duration? {
        value.flatMap { parse($0, now: date.flatMap(Self.date) ?? now) }
    }

    /// The wait that a header value requests, up to ``maximum``; nil if it is neither seconds nor a date.
    package static func parse(_ value: String, now: Int64) -> Duration? {
        let text = value.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        guard text.count <= 64, let first = text.first else { return nil }
        let seconds: Int64
        if (0x30...0x39).contains(first) {
            let digits = text.prefix { (0x30...0x39).contains($0) }
            guard text.dropFirst(digits.count).allSatisfy({ $0 == 0x20 || $0 == 0x09 }) else { return nil }
            // Digits that overflow mean a long time too.
            seconds = Int64(String(decoding: digits, as: UTF8.self)) ?? maximum
        } else {
            guard let date = date(String(decoding: text, as: UTF8.self)) else { return nil }
            seconds = date - now
        }
        return .seconds(min(max(0, seconds), maximum))
    }

    /// Parses a date in one of HTTP's three forms (RFC 9110 §5.6.7) into seconds since 1970; nil for anything else.
    package static func date(_ text: String) -> Int64? {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
        let parts: (day: String, month: String, year: String, time: String)
        switch words.count {
        // Sun, 06 Nov 1994 08:49:37 GMT, and the obsolete Sunday, 06-Nov-94 08:49:37 GMT
        case 6 where words[5] == "GMT": parts = (words[1], words[2], words[3], words[4])
        // The obsolete asctime form: Sun Nov  6 08:49:37 1994
        case 5: parts = (words[2], words[1], words[4], words[3])
        default: return nil
        }
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let clock = parts.time.split(separator: ":").map { Int64($0) ?? -1 }
        guard let month = months.firstIndex(of: parts.month), let day = Int64(parts.day), (1...31).contains(day),
            var year = Int64(parts.year), (0...9999).contains(year), clock.count == 3,
            (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        if parts.year.utf8.count == 2 { year += year < 70 ? 2000 : 1900 }
        let days = CivilDate(year: Int(year), month: month + 1, day: Int(day)).daysSince1970
        return days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }
}
