import Foundation
import Glibc
import IntegrationSupport
import Logging
import Testing
import Vocabulary

@testable import Telemetry

@Suite("how log lines get where they go", .timeLimit(.minutes(5)))
struct LogOutputTests {
    /// Passes all on to another handler, so that events take swift-log's way.
    private struct Forwarding: LogHandler {
        var base: LineLogHandler
        var logLevel: Logger.Level {
            get { base.logLevel }
            set { base.logLevel = newValue }
        }
        var metadata: Logger.Metadata {
            get { base.metadata }
            set { base.metadata = newValue }
        }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { base[metadataKey: key] }
            set { base[metadataKey: key] = newValue }
        }
        func log(event: LogEvent) { base.log(event: event) }
    }

    private func logger(_ output: any LogOutput, _ format: LogFormat = .json) -> Logger {
        .lines(label: "test", level: .trace, format: format, output: output)
    }

    @Test("an event makes the same line whichever way it takes")
    func sameLine() throws {
        let (direct, general) = (MemoryLogOutput(), MemoryLogOutput())
        let lines = LineLogHandler(label: "test", level: .trace, format: .json, output: general)
        let odd = "\u{0}\t\"\\\u{2028}é😀" + String(repeating: "é", count: 1000)
        let key = Digest128(high: 0x0123_4567_89AB_CDEF, low: 1)
        for logger in [logger(direct), Logger(label: "test") { _ in Forwarding(base: lines) }] {
            logger.event(
                .info,
                .messageHandled,
                "a \"message\"",
                [
                    .error: .string(odd), .messageKey: .uuid(key), .attempt: .int(-7), .state: .bool(false),
                    .durationSeconds: .double(0.125), .aheadSeconds: .double(.nan), .handler: "h", .count: 3,
                ]
            )
            logger.event(.error, .starting, "without fields")
        }
        try #require(direct.lines.count == 2 && general.lines.count == 2)
        let time = #"{"time":"2026-01-31T23:59:59.123456Z""#.count
        for (line, other) in zip(direct.lines, general.lines) { #expect(line.dropFirst(time) == other.dropFirst(time)) }
        #expect(direct.lines[0].contains(#""message_key":"01234567-89ab-cdef-0000-000000000001","handler":"h""#))
    }

    @Test(
        "an event of several things is a line for each, as if one by one, and written at once",
        arguments: [LogFormat.json, .text(colours: false)]
    )
    func each(_ format: LogFormat) {
        let (outputs, logs) = ([MemoryLogOutput(), MemoryLogOutput()], [1, 2, 3])
        var own = logger(outputs[0], format)
        own.event(.info, .messageHandled, "m", each: logs) { [.count: .int($0), .category: "c"] }
        for number in logs {
            logger(outputs[1], format).event(.info, .messageHandled, "m", [.category: "c", .count: .int(number)])
        }
        let time = format == .json ? #"{"time":"2026-01-31T23:59:59.123456Z""#.count : 8
        #expect(outputs[0].lines.map { $0.dropFirst(time) } == outputs[1].lines.map { $0.dropFirst(time) })
        #expect(outputs[0].lines.count == 3 && outputs[0].writes.count == (format == .json ? 1 : 3))
        own.logLevel = .error
        own.event(.info, .messageHandled, "m", each: logs) { _ in
            Issue.record("fields of a level that is not logged")
            return [:]
        }
        #expect(outputs[0].lines.count == 3)
    }

    @Test("fields stand in the order of their list, each once")
    func fields() {
        #expect(LogField.allCases.map { Int($0.place) } == Array(0..<LogField.allCases.count))
        var fields: LogFields = [.error: "e", .sender: "s", .error: "later"]
        fields[.host] = "h"
        fields[.sender] = nil
        fields[.port] = nil
        fields[.port] = 1
        #expect(fields.values.map(\.0) == [.host, .port, .error])
        #expect(fields[.error] == "later" && fields[.sender] == nil)
    }

    @Test(
        "gathered lines are written with one call, in their order",
        arguments: [LogFormat.json, .text(colours: false)]
    )
    func gathered(_ format: LogFormat) {
        let output = MemoryLogOutput()
        let log = GatheredLog(logger(output, format))
        log.flush()
        for number in 0..<100 { log.logger.event(.info, .messageHandled, "message", [.count: .int(number)]) }
        #expect(output.writes.isEmpty)
        log.flush()
        log.flush()
        #expect(output.writes.count == 1 && output.lines.count == 100)
        for (number, line) in output.lines.enumerated() {
            #expect(line.contains(format == .json ? "\"count\":\(number)}" : "count=\(number)\n"))
        }
    }

    @Test("many lines are written before they are flushed, so that memory is bounded")
    func bounded() {
        let output = MemoryLogOutput()
        let log = GatheredLog(logger(output))
        let text = String(repeating: "x", count: 1000)
        for _ in 0..<200 { log.logger.event(.info, .messageHandled, "message", [.error: .string(text)]) }
        #expect(output.writes.count >= 3)
        #expect(output.writes.allSatisfy { $0.utf8.count < GatheringLogOutput.mostKept + 2000 })
        log.flush()
        #expect(output.lines.count == 200)
    }

    @Test("a logger that is not ours is left as it is")
    func foreign() {
        let output = MemoryLogOutput()
        let lines = LineLogHandler(label: "test", level: .trace, format: .json, output: output)
        let log = GatheredLog(Logger(label: "test") { _ in Forwarding(base: lines) })
        log.logger.event(.info, .messageHandled, "message")
        #expect(output.lines.count == 1)
        log.flush()
    }

    /// Both ends of a pipe.
    private func pipe(isBlocking: Bool = true) throws -> (reader: Int32, writer: Int32) {
        signal(SIGPIPE, SIG_IGN)
        var ends: [Int32] = [0, 0]
        try #require(Glibc.pipe(&ends) == 0)
        for end in ends { try #require(fcntl(end, F_SETFD, FD_CLOEXEC) == 0) }
        if !isBlocking { try #require(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0) }
        return (ends[0], ends[1])
    }

    /// What comes out of a pipe, to its end.
    private func drain(_ reader: Int32) -> [UInt8] {
        var (all, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 8192))
        while true {
            let count = read(reader, &buffer, buffer.count)
            guard count > 0 else { return all }
            all += buffer[..<count]
        }
    }

    /// The same on a thread of its own: those of the tasks may all wait for the output.
    private func reading(_ reader: Int32) -> AsyncStream<[UInt8]> {
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        Thread.detachNewThread {
            continuation.yield(drain(reader))
            continuation.finish()
        }
        return stream
    }

    private func lines(_ bytes: [UInt8]) -> [[UInt8]] { bytes.split(separator: 0x0A).map(Array.init) }

    @Test("lines of many threads stay whole and in each thread's order, gathered or not, and none is lost")
    func concurrent() async throws {
        let (reader, writer) = try pipe()
        let output = DescriptorLogOutput(writer)
        let gathered = GatheredLog(logger(output))
        let plain = logger(output)
        let read = reading(reader)
        let (threads, count) = (6, 2000)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    let logger = thread < 3 ? gathered.logger : plain
                    for number in 0..<count {
                        logger.event(
                            .info,
                            .messageHandled,
                            "message",
                            [.connection: .int(thread), .count: .int(number)]
                        )
                        if number % 50 == 0 { gathered.flush() }
                    }
                }
            }
        }
        gathered.flush()
        output.flush(within: .seconds(60))
        close(writer)
        let all = lines(await read.first { _ in true } ?? [])
        close(reader)
        #expect(all.count == threads * count)
        var next = [Int](repeating: 0, count: threads)
        for line in all {
            let object = try #require(try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
            let thread = try #require(object["connection"] as? Int)
            #expect(object["count"] as? Int == next[thread])
            next[thread] += 1
        }
    }

    @Test("a pipe that nobody reads any more takes nothing, and nobody waits for it")
    func closed() throws {
        let (reader, writer) = try pipe()
        close(reader)
        defer { close(writer) }
        let log = GatheredLog(logger(DescriptorLogOutput(writer)))
        for _ in 0..<3 {
            log.logger.event(.info, .messageHandled, "message")
            log.flush()
        }
    }

    @Test(
        "a reader that stalls stops nobody; what is dropped is counted and told, and all other lines come in order",
        arguments: [true, false]
    )
    func stalled(isBlocking: Bool) async throws {
        let (reader, writer) = try pipe(isBlocking: isBlocking)
        defer { close(reader) }
        let output = DescriptorLogOutput(writer)
        let (plain, gathered) = (logger(output), GatheredLog(logger(output)))
        let count = 30_000
        let start = ContinuousClock.now
        // Three times what the buffer and the pipe hold; nobody reads.
        for number in 0..<count {
            plain.event(.info, .messageHandled, "message", [.count: .int(number)])
            if number % 100 == 0 {
                gathered.logger.event(.info, .deliveryFailed, "gathered")
                gathered.flush()
            }
        }
        output.flush(within: .milliseconds(10))
        // A flush waits once, not for each of its 300 calls, a quarter of a second each.
        #expect(ContinuousClock.now - start < .seconds(60))
        let dropped = output.dropped
        #expect(dropped > count / 3)
        let read = reading(reader)
        output.flush(within: .seconds(60))
        plain.event(.info, .messageHandled, "message", [.count: .int(count)])
        output.flush(within: .seconds(60))
        close(writer)
        let objects = try lines(await read.first { _ in true } ?? []).map {
            try #require(try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any])
        }
        let numbers = objects.filter { $0["event"] as? String == "handler.message" }.compactMap { $0["count"] as? Int }
        #expect(numbers == Array(0..<numbers.count - 1) + [count])
        let notices = objects.filter { $0["event"] as? String == "log.lines_dropped" }
        #expect(notices.compactMap { $0["count"] as? Int } == [dropped] && output.dropped == dropped)
        #expect(objects.count + dropped == count + 1 + 300 + notices.count)
    }
}
