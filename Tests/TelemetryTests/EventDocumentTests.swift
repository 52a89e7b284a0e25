import Foundation
import Testing

@testable import Telemetry

/// The events that documents and alerts speak of, compared with those there are; `EmittedEventsTests` sees that each is logged.
@Suite("events and fields as they are documented")
struct EventDocumentTests {
    private func text(_ path: String) throws -> String {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        return try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// What stands in backquotes in the first cell of each row, under headings that hold `heading` or do not.
    private func firstCells(under heading: String, _ isWanted: Bool) throws -> [String] {
        var isFields = false
        var names: [String] = []
        for line in try text("docs/events.md").split(separator: "\n") {
            if line.hasPrefix("## ") { isFields = line == "## \(heading)" }
            guard isFields == isWanted, line.hasPrefix("| `") else { continue }
            let cell = line.split(separator: "|")[0]
            names += cell.matches(of: /`([a-z_.]+)`/).map { String($0.output.1) }
        }
        return names
    }

    @Test("docs/events.md has every event once, and no other")
    func events() throws {
        let names = try firstCells(under: "Fields", false)
        #expect(names.sorted() == EventName.allCases.map(\.rawValue).sorted())
    }

    @Test("docs/events.md has every field once, and no other")
    func fields() throws {
        let names = try firstCells(under: "Fields", true)
        let ofEveryLine = ["time", "level", "message", "event"]
        #expect((names + ofEveryLine).sorted() == LogField.allCases.map(\.rawValue).sorted())
    }

    @Test("an event that a document or an alert names exists", arguments: ["docs", "deploy/monitoring", "README.md"])
    func named(_ place: String) throws {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let url = root.appending(path: place)
        var files = [url]
        if let inside = FileManager.default.enumerator(at: url, includingPropertiesForKeys: nil) {
            files += inside.compactMap { $0 as? URL }
        }
        let known = Set(EventName.allCases.map(\.rawValue))
        // Of these families no configuration key, action of the audit trail or table is called.
        let family = /\b((?:worker|stream|stanza|delivery|clock)\.[a-z]+(?:_[a-z]+)*)\b/
        let endings = [".yaml", ".json", ".svg", ".md", ".service"]
        for file in files where ["md", "yaml"].contains(file.pathExtension) {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: family) {
                let name = String(match.output.1)
                guard !endings.contains(where: name.hasSuffix) else { continue }
                #expect(known.contains(name), "\(file.lastPathComponent) names \(name)")
            }
        }
    }
}
