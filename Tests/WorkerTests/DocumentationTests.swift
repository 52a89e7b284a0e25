import Foundation
import Testing

/// Documents that name tests or modules, compared with these.
@Suite struct DocumentationTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// What a suite may be: a class, for one, where something is to be done at its end.
    private static let kinds = ["struct", "class", "actor", "enum"]

    /// `Suite`, `Suite.test` and `.test` in backquotes, where the suite's name ends with "Tests".
    private static func names(in text: String) -> [(suite: String?, test: String?)] {
        var last: String?
        return text.split(separator: "`", omittingEmptySubsequences: false).enumerated().compactMap { index, part in
            guard !index.isMultiple(of: 2) else { return nil }
            let words = part.split(separator: ".", omittingEmptySubsequences: false)
            guard words.count <= 2, words.allSatisfy({ $0.allSatisfy { $0.isLetter || $0.isNumber } }) else {
                return nil
            }
            if let suite = words.first, suite.hasSuffix("Tests") {
                last = String(suite)
                return (last, words.count == 2 ? String(words[1]) : nil)
            }
            guard last != nil, words.count == 2, words[0].isEmpty, !words[1].isEmpty else { return nil }
            return (nil, String(words[1]))
        }
    }

    @Test("each test that docs/guarantees.md names is there")
    func tests() throws {
        let path = "docs/guarantees.md"
        let document = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        let files = FileManager.default.enumerator(
            at: Self.root.appending(path: "Tests"),
            includingPropertiesForKeys: nil
        )
        var code = ""
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            code += try String(contentsOf: file, encoding: .utf8)
        }
        let names = Self.names(in: document)
        #expect(names.count > 10)
        for name in names {
            if let suite = name.suite {
                #expect(Self.kinds.contains { code.contains("\($0) \(suite)") }, "\(path) names \(suite)")
            }
            if let test = name.test { #expect(code.contains("func \(test)("), "\(path) names \(test)") }
        }
    }

    @Test("the table of modules names each of them, and no other")
    func modules() throws {
        let document = try String(contentsOf: Self.root.appending(path: "docs/architecture.md"), encoding: .utf8)
        let named = document.matches(of: try Regex(#"(?m)^\| `(\w+)` \|"#)).compactMap {
            $0[1].substring.map(String.init)
        }
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Sources").path)
        // The C libraries are module maps; the simulation has a folder of its own.
        let modules =
            folders.filter { !["COpenSSL", "CLibXML2", "CLibPQ", "CGlibc", "CBytes"].contains($0) }
            + ["SimulatedDatabase", "Simulation"]
        #expect(named.sorted() == modules.sorted())
    }
}
