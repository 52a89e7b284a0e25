import Foundation
import Telemetry
import Testing

/// Compares the lists of names with the sources that log: a name that nothing emits would be waited for in vain.
@Suite("every event and every field of the log is written somewhere")
struct EmittedEventsTests {
    /// The sources without comments, the lists themselves left out.
    private func sources() throws -> String {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let folder = root.appending(path: "Sources")
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var text = ""
        for case let file as URL in files
        where file.pathExtension == "swift" && !["EventName.swift", "LogField.swift"].contains(file.lastPathComponent) {
            text += try String(contentsOf: file, encoding: .utf8).replacing(/\/\/[^\n]*/, with: "")
        }
        return text
    }

    @Test("each event's name is an argument of a call that logs")
    func events() throws {
        var logged: Set<String> = []
        let text = try sources()
        for match in text.matches(of: /\Wevent\(\s*[^,()]*(?:\([^()]*\))?[^,()]*,\s*([^,)]+)[,)]/) {
            for name in match.output.1.matches(of: /\.(\w+)/) { logged.insert(String(name.output.1)) }
        }
        for name in text.matches(of: /EventName\.(\w+)/) { logged.insert(String(name.output.1)) }
        // A row of level, event and message.
        for row in text.matches(of: /\(\.\w+, \.(\w+), "/) { logged.insert(String(row.output.1)) }
        try #require(logged.count > 20)
        let missing = EventName.allCases.map { "\($0)" }.filter { !logged.contains($0) }
        #expect(missing.isEmpty, "these events are logged nowhere: remove them")
    }

    @Test("each field's name is the key of a value")
    func fields() throws {
        let text = try sources()
        let missing = LogField.allCases.map { "\($0)" }.filter { name in
            let forms = [
                "[.\(name):", " .\(name):", "[.\(name)]", "LogField.\(name).", "\n.\(name):", "name(\"\(name)\")",
            ]
            return !forms.contains { text.contains($0) }
        }
        #expect(missing.isEmpty, "these fields are written nowhere: remove them")
    }
}
