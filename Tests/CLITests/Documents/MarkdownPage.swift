import Foundation
import Testing

/// A document of the project: its blocks of code, and what stands in backquotes between them.
struct MarkdownPage {
    /// What stands between a pair of fences.
    struct Block: CustomTestStringConvertible {
        /// The page, relative to the project's folder.
        var page: String
        /// The first line of its content, counted from one.
        var line: Int
        /// The heading above it.
        var section: String
        /// Which of the section's blocks it is, counted from one.
        var number: Int
        /// The word behind the opening fence.
        var language: String
        /// Its content, without the indentation of the fence.
        var lines: [String]

        /// Its content.
        var text: String { lines.map { $0 + "\n" }.joined() }
        /// Where it stands, for people.
        var testDescription: String { "\(page):\(line)" }
    }

    /// The project's folder.
    static let root: URL = {
        var root = URL(filePath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root
    }()

    /// Relative to the project's folder.
    let path: String
    /// The blocks, in order.
    private(set) var blocks: [Block] = []
    /// What stands in backquotes outside blocks, each on one line.
    private(set) var spans: [String] = []

    /// Reads a page.
    ///
    /// - Parameter path: Relative to the project's folder.
    /// - Throws: Where it can't be read, or ends inside a block.
    init(_ path: String) throws {
        self.path = path
        let text = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        var prose = ""
        var section = ""
        var counts: [String: Int] = [:]
        var open: (block: Block, indentation: Int)?
        for (index, line) in text.components(separatedBy: "\n").enumerated() {
            let indentation = line.prefix { $0 == " " }.count
            let isFence = line.dropFirst(indentation).hasPrefix("```")
            if let current = open {
                if isFence {
                    blocks.append(current.block)
                    open = nil
                } else {
                    open?.block.lines.append(String(line.dropFirst(min(indentation, current.indentation))))
                }
            } else if isFence {
                counts[section, default: 0] += 1
                let block = Block(
                    page: path,
                    line: index + 2,
                    section: section,
                    number: counts[section, default: 0],
                    language: String(line.dropFirst(indentation + 3)),
                    lines: []
                )
                open = (block, indentation)
            } else {
                if line.hasPrefix("#") { section = String(line.drop { $0 == "#" }.dropFirst()) }
                prose += line + "\n"
            }
        }
        try #require(open == nil, "\(path) ends inside a block")
        spans = prose.matches(of: /`([^`]+)`/).map {
            $0.output.1.split(separator: /\s+/).joined(separator: " ")
        }
    }

    /// The pages in these files and folders.
    static func paths(_ places: [String]) throws -> [String] {
        try places.flatMap { place in
            guard !place.hasSuffix(".md") else { return [place] }
            return try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: place).path).sorted()
                .filter { $0.hasSuffix(".md") }.map { "\(place)/\($0)" }
        }
    }
}
