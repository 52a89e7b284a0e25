import Foundation
import Testing
import Vocabulary

@Suite("moments and dates")
struct TimeTests {
    @Test(
        "a moment is written as RFC 3339 with microseconds",
        arguments: [
            (0, "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
            (1_767_225_599_999_999, "2025-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "10000-01-01T00:00:00.000000Z"),
        ] as [(Int64, String)]
    )
    func rfc3339(_ microseconds: Int64, _ text: String) {
        let time = Timestamp(microseconds: microseconds)
        #expect(time.rfc3339 == text)
        #expect(text.hasPrefix(time.date + "T"))
        #expect(text.contains("T\(time.timeOfDay)."))
        #expect(time.shown == "\(time.date) \(time.timeOfDay)Z")
    }

    @Test("an instant is kept exactly, before and after the process's start")
    func fixedInstant() {
        struct Kept: Equatable { @FixedInstant var time: ContinuousClock.Instant }
        let now = ContinuousClock.now
        for distance: Duration in [
            .zero, Duration(secondsComponent: 0, attosecondsComponent: 1), .seconds(1_000_000_000), .seconds(-86_400),
        ] {
            var kept = Kept(time: now)
            kept.time = now + distance
            #expect(kept.time == now + distance && kept == Kept(time: now + distance))
        }
    }

    @Test(
        "a length of time has one unit, the largest that leaves digits before the point",
        arguments: [
            (0, "0 s"), (-1, "0 s"), (0.000_000_4, "0.4 µs"), (0.000_25, "250 µs"), (0.000_999_7, "1 ms"),
            (0.012, "12 ms"),
            (0.25, "250 ms"), (0.999_7, "1 s"), (1.54, "1.5 s"), (63, "63 s"), (90, "1.5 min"), (5_400, "1.5 h"),
            (43_200, "12 h"), (172_800, "2 d"), (.infinity, "–"),
        ] as [(Double, String)]
    )
    func lengths(_ seconds: Double, _ text: String) { #expect(Amount.time(seconds).hasPrefix(text)) }

    @Test("the ends of what 64 bits hold are written without a trap")
    func ends() {
        #expect(Timestamp(microseconds: .max).rfc3339 == "294247-01-10T04:00:54.775807Z")
        #expect(Timestamp(microseconds: .min).rfc3339 == "-290308-12-21T19:59:05.224192Z")
    }

    @Test("what is written is read back, for random moments of years 1 to 9999")
    func roundTrip() throws {
        var random = SeededGenerator(seed: 2)
        for _ in 0..<2_000 {
            let time = Timestamp(
                microseconds: .random(in: -62_135_596_800_000_000...253_402_300_799_999_999, using: &random)
            )
            #expect(try Timestamp(parsing: time.rfc3339) == time)
            // What people read can be given back, to the second.
            let shown = try Timestamp(parsing: time.shown)
            #expect(shown <= time && time - shown < .seconds(1))
            #expect(try Timestamp(parsing: time.date).microseconds == time.microseconds - time.microsecondsOfDay)
        }
    }

    @Test(
        "shorter forms, other offsets and more digits are read, too",
        arguments: [
            ("2026-01-31", "2026-01-31T00:00:00.000000Z"), ("2026-01-31T12:30", "2026-01-31T12:30:00.000000Z"),
            ("2026-01-31 12:30:15", "2026-01-31T12:30:15.000000Z"),
            ("2026-01-31t12:30:15.5z", "2026-01-31T12:30:15.500000Z"),
            ("2026-01-31T12:30:15.123456789+01:00", "2026-01-31T11:30:15.123456Z"),
            ("2026-01-31T00:00:00-0130", "2026-01-31T01:30:00.000000Z"),
            ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000000Z"),
            ("0001-01-01T00:00:00+23:59", "0000-12-31T00:01:00.000000Z"),
        ]
    )
    func forms(_ text: String, _ moment: String) throws {
        #expect(try Timestamp(parsing: text).rfc3339 == moment)
    }

    @Test("a text that is no moment is refused with the place of its mistake")
    func refusals() {
        let cases = [
            ("", 0), ("x", 0), ("2026", 4), ("2026-13-01", 5), ("2026-02-29", 8), ("2024-02-30", 8),
            ("2026-01-01X", 10),
            ("2026-01-01T24:00", 11), ("2026-01-01T23:60", 14), ("2026-01-01T23:59:61", 17),
            ("2026-01-01T00:00:00.", 20), ("2026-01-01T00:00Zx", 17), ("2026-01-01T00:00+24:00", 17), ("0000-01-01", 0),
            ("2026-01-01T00:00é", 16),
        ]
        for (text, place) in cases {
            #expect("\(text)") {
                _ = try Timestamp(parsing: text)
            } throws: {
                ($0 as? TimestampTextError)?.position == place
            }
        }
    }

    @Test("dates and days are each other's inverse over eleven centuries, and no date comes twice")
    func dates() {
        var last = CivilDate(daysSince1970: -365_001)
        for day in Int64(-365_000)...36_525 {
            let date = CivilDate(daysSince1970: day)
            #expect(date.daysSince1970 == day)
            let isNext =
                date.day == last.day + 1
                || (date.day == 1 && last.day == CivilDate.days(inMonth: last.month, of: last.year))
            #expect(isNext && date.day <= CivilDate.days(inMonth: date.month, of: date.year))
            last = date
        }
    }

    @Test("days and times of day count from midnight, before 1970 as well")
    func days() {
        #expect(Timestamp(microseconds: -1).daysSince1970 == -1)
        #expect(Timestamp(microseconds: -1).microsecondsOfDay == Timestamp.day - 1)
        #expect(Timestamp(microseconds: Timestamp.day).daysSince1970 == 1)
        #expect(Timestamp(microseconds: -Timestamp.day).daysSince1970 == -1)
        #expect(Timestamp(microseconds: -Timestamp.day).microsecondsOfDay == 0)
    }

    @Test("moments and durations add up")
    func arithmetic() {
        let time = Timestamp(microseconds: 5)
        #expect(time + .seconds(1) == Timestamp(microseconds: 1_000_005))
        #expect(time - .microseconds(6) == Timestamp(microseconds: -1))
        #expect(time - Timestamp(microseconds: 0) == .microseconds(5))
        #expect(Timestamp(microseconds: 0) < time)
    }

    @Test("the clocks go forward, and the wall clock is the system's")
    func clocks() {
        let (first, second) = (MonotonicTime.now, MonotonicTime.now)
        #expect(first <= second && second.nanoseconds - first.nanoseconds < 60_000_000_000)
        #expect(abs(Timestamp.now.microseconds - Int64(Date().timeIntervalSince1970 * 1e6)) < 60_000_000)
    }

    @Test("a moment of the monotonic clock in other units")
    func monotonic() {
        let moment = MonotonicTime(nanoseconds: 2_500_000_000)
        #expect(moment.milliseconds == 2_500 && moment.microseconds == 2_500_000)
    }
}

@Suite("durations as text")
struct DurationTests {
    @Test("a whole number and a unit are read, and nothing else")
    func reading() {
        let cases: [(String, Duration?)] = [
            ("250ms", .milliseconds(250)), ("30s", .seconds(30)), ("15m", .seconds(900)), ("12h", .seconds(43_200)),
            ("30d", .seconds(2_592_000)), ("4w", .seconds(2_419_200)), ("0", .zero), ("0s", .zero),
            ("007s", .seconds(7)),
            ("1", nil), ("9223372036854775807d", nil), ("99999999999999999999s", nil),
            ("9223372036854ms", .milliseconds(9_223_372_036_854)),
        ]
        for (text, duration) in cases {
            #expect(DurationText(text) != nil, "\(text)")
            #expect(DurationText(text)?.duration == duration, "\(text)")
        }
        for text in [
            "", "s", "ms", "-1s", "+1s", "1.5s", "1 s", " 1s", "1s ", "1S", "1y", "1s1", "１s", "1s\u{0}", "0x1s",
        ] {
            #expect(DurationText(text) == nil, "\(text)")
        }
    }

    @Test("a number that is too long counts as the greatest, so that limits refuse it")
    func tooLong() {
        #expect(DurationText("99999999999999999999s")?.count == .max)
        #expect(DurationText("9223372036854775807s")?.count == .max)
    }

    @Test("a duration is written in its largest unit, and read back")
    func writing() {
        let cases: [(Duration, String)] = [
            (.milliseconds(250), "250ms"), (.milliseconds(1_500), "1500ms"), (.seconds(30), "30s"),
            (.seconds(90), "90s"),
            (.seconds(120), "2m"), (.seconds(129_600), "36h"), (.seconds(2_592_000), "30d"), (.zero, "0d"),
        ]
        for (duration, text) in cases {
            #expect(duration.unitText == text)
            #expect(DurationText(text)?.duration == duration)
        }
        var random = SeededGenerator(seed: 3)
        for _ in 0..<500 {
            let duration = Duration.milliseconds(Int64.random(in: 0...1_000_000_000_000, using: &random))
            #expect(DurationText(duration.unitText)?.duration == duration)
        }
    }

    @Test("random texts are read without a trap, and what is read is written by the same digits")
    func random() {
        var random = SeededGenerator(seed: 4)
        let alphabet = Array("0123456789mshdw-. ")
        for _ in 0..<5_000 {
            let text = String(
                (0..<Int.random(in: 0...24, using: &random)).compactMap { _ in alphabet.randomElement(using: &random) }
            )
            guard let read = DurationText(text) else { continue }
            #expect(text.hasSuffix(read.unit?.rawValue ?? "") && text.first?.isNumber == true)
            if let duration = read.duration { #expect(duration >= .zero) }
        }
    }

    @Test("numbers of units are rounded towards zero")
    func units() {
        #expect(Duration.nanoseconds(1_999).microseconds == 1)
        #expect(Duration.nanoseconds(-1_999).microseconds == -1)
        #expect(Duration.microseconds(1_999).milliseconds == 1)
        #expect(Duration.milliseconds(1_500).inSeconds == 1.5)
    }
}
