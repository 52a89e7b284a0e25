import IntegrationSupport
import Logging
import Telemetry
import Testing

@testable import Dispatcher

@Suite("dead letters in the log")
struct DeadLetterLogTests {
    private let output = MemoryLogOutput()
    private let start = ContinuousClock.now

    private func log() -> DeadLetterLog {
        DeadLetterLog(Logger.lines(label: "test", level: .info, format: .json, output: output))
    }

    private func die(_ log: DeadLetterLog, _ group: String, _ handler: String = "h", after seconds: Double = 0) {
        let failure = HandlerFailure(group: group, detail: "FAKE-detail")
        log.add(
            handler,
            failure,
            [.handler: .string(handler), .messageKey: "k", .error: .string(failure.logText)],
            now: start + .seconds(seconds)
        )
    }

    @Test("thousands of one group are one line at once, and one a minute with their number")
    func thousands() {
        let log = log()
        for number in 0..<5000 { die(log, "status 400", after: Double(number) / 100) }
        #expect(output.lines.count == 1)
        #expect(output.lines[0].contains("\"message_key\":\"k\"") && output.lines[0].contains("status 400"))
        log.logDue(start + .seconds(59))
        #expect(output.lines.count == 1)
        log.logDue(start + .seconds(60))
        #expect(output.lines.count == 2)
        #expect(output.lines[1].contains("\"count\":4999,\"error\":\"status 400\""))
        // The next minute begins with that line: what dies in it waits for its end.
        die(log, "status 400", after: 61)
        log.logDue(start + .seconds(119))
        #expect(output.lines.count == 2)
        log.logDue(start + .seconds(120))
        #expect(output.lines.count == 3 && output.lines[2].contains("\"count\":1,"))
        // After a minute without one, the next is a first again.
        log.logDue(start + .seconds(180))
        die(log, "status 400", after: 200)
        #expect(output.lines.count == 4 && output.lines[3].contains("\"message_key\""))
        #expect(!output.lines.joined().contains("FAKE-detail"))
    }

    @Test("each handler and each group has lines of its own, and the end tells of what was only counted")
    func groups() {
        let log = log()
        for (group, handler) in [("a", "h"), ("b", "h"), ("a", "i")] {
            for _ in 0..<3 { die(log, group, handler) }
        }
        #expect(output.lines.count == 3)
        log.logDue(nil)
        #expect(output.lines.count == 6)
        #expect(output.lines.suffix(3).allSatisfy { $0.contains("\"count\":2,") })
        log.logDue(nil)
        #expect(output.lines.count == 6)
    }

    @Test("groups that a handler makes up without end share lines")
    func endless() {
        let log = log()
        for number in 0..<10_000 { die(log, "made up \(number)") }
        #expect(output.lines.count <= 202)
        log.logDue(nil)
        #expect(output.lines.count <= 404)
        let counted = output.lines.count { $0.contains("\"message_key\"") }
        let more = output.lines.compactMap { line in
            line.firstMatch(of: /"count":(\d+)/).flatMap { Int($0.output.1) }
        }
        #expect(counted + more.reduce(0, +) == 10_000)
    }
}
