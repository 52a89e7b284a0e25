import Foundation
import Testing

/// Compares the dependencies that `Package.swift` declares with the imports of each target's files.
///
/// The build refuses an import that is not declared; nothing else refuses a declaration that nothing imports.
@Suite("Declared dependencies and imports")
struct DependencyTests {
    private struct Target {
        var name: String
        var folder: String
        /// Its folders that belong to another target.
        var excluded: Set<String>
        var dependencies: Set<String>
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("Each target declares exactly the modules that its files import")
    func declaredIsImported() throws {
        let manifest = try String(contentsOf: Self.root.appending(path: "Package.swift"), encoding: .utf8)
        let targets = try Self.targets(manifest)
        #expect(targets.count > 30, "the manifest is not read as it is written")
        let known = targets.reduce(into: Set(targets.map(\.name))) { $0.formUnion($1.dependencies) }
        for target in targets {
            let imported = try Self.imports(of: target).intersection(known)
            let unused = target.dependencies.subtracting(imported).sorted()
            let missing = imported.subtracting(target.dependencies).sorted()
            #expect(unused.isEmpty, "\(target.name) declares what no file of it imports: \(unused)")
            #expect(missing.isEmpty, "\(target.name) imports what it does not declare: \(missing)")
        }
    }

    /// The targets with source files, read from the text of the manifest, which takes no lock as SwiftPM would.
    private static func targets(_ manifest: String) throws -> [Target] {
        let shorthand = try manifest.matches(of: Regex(#"let (\w+): Target\.Dependency = \.product\(name: "(\w+)""#))
            .reduce(into: [String: String]()) { $0["\($1[1].substring ?? "")"] = "\($1[2].substring ?? "")" }
        let opening = try Regex(#"(module|suite|\.target|\.executableTarget)\(\s*(?:name: )?"(\w+)""#)
        let matches = manifest.matches(of: opening)
        return try matches.enumerated().map { index, match in
            let end = index + 1 < matches.count ? matches[index + 1].range.lowerBound : manifest.endIndex
            // A comment may name modules as well.
            let body = manifest[match.range.upperBound..<end].replacing(try Regex("//.*"), with: "")
            let name = String(match[2].substring ?? "")
            let isSuite = match[1].substring == "suite"
            let path = try body.firstMatch(of: Regex(#"path: "([\w/]+)""#))?[1].substring.map(String.init)
            let excluded = try body.firstMatch(of: Regex(#"exclude: \["(\w+)"\]"#))?[1].substring.map(String.init)
            let list = try body.firstMatch(of: Regex(#"\[((?:[^\[\]])*)\]"#))?[1].substring ?? ""
            let products = try list.matches(of: Regex(#"\.product\(name: "(\w+)""#)).compactMap { $0[1].substring }
            let rest = list.replacing(try Regex(#"\.product\([^)]*\)"#), with: "")
            let names = try rest.matches(of: Regex(#""(\w+)""#)).compactMap { $0[1].substring }
            let words = try rest.replacing(Regex(#""\w+""#), with: "").matches(of: Regex(#"\w+"#)).map {
                String($0[0].substring ?? "")
            }
            return Target(
                name: name,
                folder: path ?? (isSuite ? "Tests/\(name)" : "Sources/\(name)"),
                excluded: Set([excluded].compactMap(\.self)),
                dependencies: Set((products + names).map(String.init) + words.compactMap { shorthand[$0] })
            )
        }
    }

    private static func imports(of target: Target) throws -> Set<String> {
        let line = try Regex(#"^(?:@\w+ )?(?:package |public )?import (\w+)"#).anchorsMatchLineEndings()
        let files = FileManager.default.enumerator(
            at: root.appending(path: target.folder),
            includingPropertiesForKeys: nil
        )
        var imports: Set<String> = []
        while let file = files?.nextObject() as? URL {
            if target.excluded.contains(file.lastPathComponent) { files?.skipDescendants() }
            guard file.pathExtension == "swift" else { continue }
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: line) { imports.insert(String(match[1].substring ?? "")) }
        }
        return imports
    }
}
