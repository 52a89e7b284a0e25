import Foundation
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("times as people write them: --since and --until")
struct TimeExpressionTests {
    /// 2026-03-01T12:34:56.000007Z, a day after the end of a February.
    static let now = Timestamp(microseconds: 1_772_368_496_000_007)
    static let day: Int64 = 86_400_000_000
    static let midnight: Int64 = 1_772_323_200_000_000

    static let readings: [(String, Int64)] = {
        let now = Self.now.microseconds
        return [
            ("now", now), ("today", midnight), ("yesterday", midnight - day),
            ("0s", now), ("1ms", now - 1_000), ("90s", now - 90_000_000), ("15m", now - 900_000_000),
            ("2h", now - 7_200_000_000), ("30d", now - 30 * day), ("4w", now - 28 * day),
            ("2026-03-01", midnight), ("2026-02-28", midnight - day), ("2024-02-29", 1_709_164_800_000_000),
            ("2000-02-29", 951_782_400_000_000), ("1970-01-01", 0), ("1969-12-31", -day),
            ("0001-01-01", -62_135_596_800_000_000), ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
            ("2026-03-01T12:34", now - 56_000_007), ("2026-03-01 12:34:56", now - 7),
            ("2026-03-01T12:34:56Z", now - 7), ("2026-03-01t12:34:56z", now - 7),
            ("2026-03-01T12:34:56.000007Z", now), ("2026-03-01T12:34:56.0000079Z", now),
            ("2026-03-01T12:34:56.5", now - 7 + 500_000),
            ("2026-03-01T13:34:56.000007+01:00", now), ("2026-03-01T07:04:56.000007-0530", now),
            ("2026-03-01T14:34:56.000007+02", now), ("2026-02-28T23:59:60Z", midnight),
            ("2026-03-01T00:30:00+01:00", midnight - 1_800_000_000),
        ]
    }()

    @Test("every accepted form gives its moment", arguments: readings)
    func reads(_ text: String, _ time: Int64) throws {
        #expect(try TimeExpression.parse(text, now: Self.now).microseconds == time)
    }

    static let refusals: [(String, Int)] = [
        ("", 0), ("h", 0), ("2", 0), ("2x", 0), ("-2h", 0), ("tomorrow", 0), ("2h ", 0), ("2026", 4), ("26-01-01", 0),
        ("2026-13-01", 5), ("2026-00-01", 5), ("2026-02-29", 8), ("2100-02-29", 8), ("2026-04-31", 8),
        ("2026-01-01x", 10), ("2026-01-01T", 11), ("2026-01-01T24:00", 11), ("2026-01-01T12", 13),
        ("2026-01-01T12:60", 14), ("2026-01-01T12:00:61", 17), ("2026-01-01T12:00:00.", 20),
        ("2026-01-01T12:00+1", 17), ("2026-01-01T12:00+24:00", 17), ("2026-01-01T12:00Zx", 17),
        ("2026-01-01T12:00+01:00x", 22), ("0000-01-01", 0), ("２０２６-01-01", 0),
        ("99999999999999999999d", 0), ("999999999d", 0),
    ]

    @Test("a mistake is rejected with its position", arguments: refusals)
    func refuses(_ text: String, _ position: Int) {
        let error = #expect(throws: FilterError.self) { try TimeExpression.parse(text, now: Self.now) }
        #expect(error?.position == position, "\(error?.description ?? "")")
    }
}

@Suite("a filter as a value")
struct MessageFilterTests {
    static func full() throws -> MessageFilter {
        var filter = MessageFilter()
        filter.categories = ["com.example.orders", "com.example.\"x\""]
        filter.senderID = "1234567890"
        filter.deviceKey = DeviceKey("7d1c0a52-0000-4000-8000-000000000001")
        filter.messageID = "m-1"
        filter.messageKey = MessageKey("7d1c0a52-0000-4000-8000-000000000002")
        filter.since = TimeExpressionTests.now
        filter.until = TimeExpressionTests.now + .microseconds(1)
        filter.clauses = [try WhereClause(parsing: "data.a[0] >= 5"), try WhereClause(parsing: "data exists")]
        return filter
    }

    @Test("a filter survives encoding to JSON and back")
    func coding() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        for filter in [try Self.full(), MessageFilter()] {
            let json = try encoder.encode(filter)
            #expect(try encoder.encode(JSONDecoder().decode(MessageFilter.self, from: json)) == json)
        }
        #expect(
            String(decoding: try encoder.encode(Self.full()), as: UTF8.self)
                == #"{"categories":["com.example.orders","com.example.\"x\""],"#
                + #""device":"7d1c0a52-0000-4000-8000-000000000001","message_id":"m-1","#
                + #""message_key":"7d1c0a52-0000-4000-8000-000000000002","sender":"1234567890","#
                + #""since":"2026-03-01T12:34:56.000007Z","until":"2026-03-01T12:34:56.000008Z","#
                + #""where":["data.a[0] >= 5","data exists"]}"#
        )
    }

    @Test(
        "JSON that is not a filter is rejected",
        arguments: [
            #"{"device":"x"}"#, #"{"message_key":"x"}"#, #"{"since":"2h"}"#, #"{"where":["a=b"]}"#,
            #"{"where":"data.a=b"}"#,
        ]
    )
    func refusesBrokenJSON(_ text: String) {
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(MessageFilter.self, from: Data(text.utf8))
        }
    }

    @Test("a cursor survives conversion to text and back")
    func cursor() throws {
        let cursor = MessageCursor(
            receivedAt: TimeExpressionTests.now,
            messageKey: try #require(MessageKey("7d1c0a52-0000-4000-8000-000000000002"))
        )
        #expect(cursor.description == "2026-03-01T12:34:56.000007Z/7d1c0a52-0000-4000-8000-000000000002")
        #expect(MessageCursor(cursor.description) == cursor)
        for text in ["", "/", "2026-03-01", "x/7d1c0a52-0000-4000-8000-000000000002", "2026-03-01/x"] {
            #expect(MessageCursor(text) == nil)
        }
    }

    @Test("filters are the same where their texts are, byte by byte")
    func bytes() {
        var (one, other) = (MessageFilter(), MessageFilter())
        (one.categories, other.categories) = (["jos\u{E9}"], ["jose\u{301}"])
        #expect(one != other && one == one)
        (one.categories, other.categories) = ([], [])
        (one.messageID, other.messageID) = ("\u{E9}", "e\u{301}")
        #expect(one != other)
    }
}
