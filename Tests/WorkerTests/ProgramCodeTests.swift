import Foundation
import Testing

@testable import Worker

@Suite("The program's code in memory")
struct ProgramCodeTests {
    /// Bytes of files, shared with the page cache, that this process has mapped and in memory.
    private func residentFileBytes() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return try #require(Int(fields[2])) * Int(getpagesize())
    }

    @Test("Code that is let go of is no longer counted as ours, and comes back when it runs")
    func release() throws {
        let before = try residentFileBytes()
        let span = ProgramCode.release()
        let after = try residentFileBytes()
        // Other tests run meanwhile and bring some of it back.
        #expect(after < before / 2, "\(before) before, \(after) after")
        #expect(span > before / 2)
        // All of this, and the rest of the suite, runs from pages that were let go of.
        #expect(try residentFileBytes() > 0)
    }
}
