import BuildInfo
import Testing

@testable import CLI

/// `--version` says what runs: the program, the commit, and the libraries that the system has given it.
@Suite("what --version says")
struct VersionTests {
    @Test("version, commit and kind of build in the first line, then a line for each C library")
    func text() throws {
        let lines = Version.text.split(separator: "\n").map(String.init)
        let first = try #require(lines.first)
        #expect(first == "upstream-worker \(Version.current) (commit \(BuildInfo.commit ?? "unknown"), debug build)")
        #expect(lines.count == 4)
        #expect(lines[1].wholeMatch(of: /OpenSSL \d+\.\d+\.\d+.*/) != nil, "\(lines)")
        #expect(lines[2].wholeMatch(of: /libxml2 2\.\d{1,2}\.\d{1,2}.*/) != nil, "\(lines)")
        #expect(lines[3].wholeMatch(of: /libpq 1\d\.\d{1,2}/) != nil, "\(lines)")
    }

    @Test(
        "libxml2 writes two digits for each number, and may add a commit",
        arguments: [
            ("20914", "2.9.14"), ("21303", "2.13.3"), ("21400-GITv2.14", "2.14.0-GITv2.14"), ("odd", "odd"), ("7", "7"),
        ]
    )
    func libxml2(text: String, version: String) {
        #expect(BuildInfo.dotted(text) == version)
    }

    @Test("libpq's minor version has four digits", arguments: [(150_010, "15.10"), (180_000, "18.0")])
    func libpq(number: Int32, version: String) {
        #expect(BuildInfo.dotted(libpq: number) == version)
    }
}
