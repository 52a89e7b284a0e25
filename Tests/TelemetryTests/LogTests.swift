import Foundation
import IntegrationSupport
import Logging
import Testing
import Vocabulary

@testable import Telemetry

struct LogTests {
    private func logged(
        _ format: LogFormat = .json,
        level: Logger.Level = .trace,
        _ body: (inout Logger) -> Void
    ) -> [String] {
        let output = MemoryLogOutput()
        var logger = Logger.lines(label: "test", level: level, format: format, output: output)
        body(&logger)
        return output.lines
    }

    private func object(_ line: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }

    @Test("a line has the fixed fields first and typed values after them")
    func typed() throws {
        let lines = logged { logger in
            logger[.sender] = "1234567890"
            logger.event(
                .info,
                .streamBound,
                "stream bound",
                [.connection: 3, .durationSeconds: .seconds(.milliseconds(250)), .state: .bool(true), .error: "none"]
            )
        }
        let line = try #require(lines.first)
        #expect(line.hasSuffix("}\n") && lines.count == 1)
        #expect(
            line.dropFirst(#"{"time":"2026-01-31T23:59:59.123456Z","#.count)
                == #""level":"info","message":"stream bound","event":"stream.bound","sender":"1234567890","#
                + #""connection":3,"duration_seconds":0.25,"state":true,"error":"none"}"# + "\n"
        )
        let time = try #require(try object(line)["time"] as? String)
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/) != nil)
    }

    @Test("whatever a value holds, the line stays one line of JSON and gives it back")
    func escaping() throws {
        let odd = "\u{0}\u{1}\t\r\n\"\\/\u{1B}[31m\u{7F}\u{85}\u{2028}\u{2029}é😀\u{202E}"
        let line = try #require(
            logged { $0.event(.error, .connectFailed, "connect failed", [.error: .string(odd)]) }.first
        )
        #expect(line.utf8.filter { $0 < 0x20 || $0 == 0x7F }.count == 1)
        #expect(try object(line)["error"] as? String == odd)
    }

    @Test("long values are cut between characters")
    func cut() throws {
        let line = try #require(
            logged {
                $0.event(
                    .error,
                    .connectFailed,
                    "connect failed",
                    [.error: .string(String(repeating: "é", count: 5000))]
                )
            }
            .first
        )
        let value = try #require(try object(line)["error"] as? String)
        #expect(value.utf8.count <= LogLine.longestValue + 3 && value.hasSuffix("é…"))
    }

    @Test("what a library logs by itself has an event and a source")
    func library() throws {
        let line = try #require(
            logged {
                $0.info("hello\nworld", metadata: ["z": "1", "list": ["a", "b"], "map": ["k": .stringConvertible(5)]])
            }.first
        )
        let object = try object(line)
        #expect(object["event"] as? String == "library")
        #expect(object["source"] as? String == "test")
        #expect(object["message"] as? String == "hello\nworld")
        #expect(object["list"] as? [String] == ["a", "b"])
        #expect((object["map"] as? [String: Int]) == ["k": 5])
    }

    @Test("below the level nothing is written, and the fields are not even made")
    func level() {
        var made = 0
        let lines = logged(level: .info) { logger in
            logger.event(
                .debug,
                .starting,
                "batch committed",
                {
                    made += 1
                    return [.batch: 1]
                }()
            )
        }
        #expect(lines.isEmpty && made == 0)
    }

    @Test("text for people, without anything that moves their terminal")
    func text() throws {
        let line = try #require(
            logged(.text(colours: false)) {
                $0.event(
                    .warning,
                    .connectFailed,
                    "connect failed",
                    [.host: "a b", .error: "x\u{1B}[2J\ny\u{202E}", .port: 5235]
                )
            }.first
        )
        #expect(
            line.dropFirst("23:59:59 ".count)
                == "WARNING  connect failed  host=\"a b\"  port=5235  error=x\\u{1B}[2J\\ny\\u{202E}\n"
        )
        let coloured = try #require(
            logged(.text(colours: true)) { $0.event(.error, .connectFailed, "connect failed") }.first
        )
        #expect(coloured.contains("\u{1B}[31mERROR"))
    }

    @Test("numbers that JSON can't carry become null")
    func infinite() throws {
        let line = try #require(
            logged { $0.event(.info, .starting, "x", [.durationSeconds: .double(.nan)]) }.first
        )
        #expect(try object(line)["duration_seconds"] is NSNull)
    }

    @Test("ids and names are unique and stay in their alphabet")
    func vocabulary() {
        #expect(Set(EventName.allCases.map(\.rawValue)).count == EventName.allCases.count)
        for name in EventName.allCases.map(\.rawValue) + LogField.allCases.map(\.rawValue) {
            #expect(name.allSatisfy { $0 == "." || $0 == "_" || ("a"..."z").contains($0) })
        }
        let contract = [
            "time", "level", "message", "event", "sender", "connection", "message_key", "device_key", "category",
            "handler", "attempt", "batch", "sqlstate", "duration_seconds",
        ]
        #expect(LogField.allCases.map(\.rawValue).starts(with: contract))
        for forbidden in ["token", "message_id", "payload", "secret", "password"] {
            #expect(LogField(rawValue: forbidden) == nil)
        }
    }

    @Test(
        "times agree with the calendar",
        arguments: [
            (0, "1970-01-01T00:00:00.000000Z"), (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_399_000_001, "2100-02-28T23:59:59.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
            (1_795_236_016_000_000, "2026-11-21T04:40:16.000000Z"),
        ]
    )
    func times(microseconds: Int64, text: String) {
        #expect(Timestamp(microseconds: microseconds).rfc3339 == text)
    }
}
