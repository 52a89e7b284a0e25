import Foundation
import IntegrationSupport
import Logging
import Testing

@testable import Telemetry

@Suite("what the system knows of the process")
struct ProcessFiguresTests {
    @Test("the figures are this process's")
    func own() throws {
        let figures = ProcessFigures.now()
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        func field(_ name: String) throws -> Double {
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name + ":") })
            let words = line.split(whereSeparator: \.isWhitespace)
            return try #require(words.count > 1 ? Double(words[1]) : nil)
        }
        #expect(try abs(figures[.processVirtualMemory] / 1024 - field("VmSize")) < 200_000)
        #expect(try abs(figures[.processMemory] / 1024 - field("VmRSS")) < 100_000)
        #expect(figures[.processThreads] >= 1 && figures[.processThreads] < 1000)
        #expect(figures[.processCPU] >= 0 && figures[.processCPU] < 100_000)
        #expect(figures[.processMostFiles] >= 256)
        // Between this machine's last start and now.
        let uptime = try String(contentsOfFile: "/proc/uptime", encoding: .utf8)
        let seconds = try #require(uptime.split(separator: " ").first.flatMap { Double($0) })
        let now = Date().timeIntervalSince1970
        #expect(figures[.processStart] <= now + 1 && figures[.processStart] >= now - seconds - 1)
    }

    @Test("a descriptor more is one more")
    func descriptors() {
        // Others open and close theirs meanwhile: many more than they have.
        let before = ProcessFigures.now()[.processOpenFiles]
        let opened = (0..<100).map { _ in open("/dev/null", O_RDONLY) }
        let after = ProcessFigures.now()[.processOpenFiles]
        for descriptor in opened { close(descriptor) }
        #expect(after - before > 50 && after - before < 150)
    }

    @Test("the name of a program may hold anything")
    func name() {
        var figures = ProcessFigures()
        let name = "7 (a) b) 9 9 (c)"
        figures.take(
            stat: "\(name) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 12 0 5000 1048576 3 18446744073709551615"
        )
        #expect(figures[.processCPU] == 400 / Double(sysconf(Int32(_SC_CLK_TCK))))
        #expect(figures[.processThreads] == 12 && figures[.processVirtualMemory] == 1_048_576)
        #expect(figures[.processMemory] == 3 * Double(sysconf(Int32(_SC_PAGESIZE))))
        #expect(ProcessFigures()[.processCPU].isNaN)
    }

    @Test("loggers that share a threshold follow it; one with a level of its own does not")
    func threshold() {
        let threshold = LogThreshold(.info)
        let output = MemoryLogOutput()
        let first = Logger(label: "a") {
            LineLogHandler(label: $0, threshold: threshold, format: .json, output: output)
        }
        var second = first
        second.logLevel = .error
        first.event(.debug, .starting, "no")
        threshold.level = .debug
        first.event(.debug, .starting, "yes")
        second.event(.warning, .starting, "no")
        threshold.level = .critical
        first.event(.error, .starting, "no")
        #expect(output.lines.count == 1 && output.lines[0].contains("yes"))
        for level in Logger.Level.allCases {
            threshold.level = level
            #expect(threshold.level == level && first.logLevel == level)
        }
    }
}
