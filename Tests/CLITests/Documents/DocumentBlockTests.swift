import ConfigurationKeys
import Foundation
import Testing
import UpstreamConfiguration

/// Every block of the documents that people copy from, held to what its entry in ``DocumentedBlock`` says.
@Suite("documents' blocks", .timeLimit(.minutes(4)))
struct DocumentBlockTests {
    private static func read(_ path: String) throws -> String {
        try String(contentsOf: MarkdownPage.root.appending(path: path), encoding: .utf8)
    }

    private static func key(_ section: String, _ number: Int) -> String { "\(section), block \(number)" }

    /// The blocks with their entries.
    private func entries(_ page: String) throws -> [(block: MarkdownPage.Block, check: DocumentedBlock.Check)] {
        let table = Dictionary(
            uniqueKeysWithValues: (DocumentedBlock.pages[page] ?? []).map {
                (Self.key($0.section, $0.number), $0.check)
            }
        )
        return try MarkdownPage(page).blocks.compactMap { block in
            table[Self.key(block.section, block.number)].map { (block, $0) }
        }
    }

    @Test("each block has an entry, and each entry a block", arguments: DocumentedBlock.pages.keys.sorted())
    func complete(_ page: String) throws {
        let blocks = try MarkdownPage(page).blocks.map { Self.key($0.section, $0.number) }
        let entries = (DocumentedBlock.pages[page] ?? []).map { Self.key($0.section, $0.number) }
        #expect(Set(entries).count == entries.count)
        #expect(Set(blocks).subtracting(entries) == [], "\(page): say in DocumentedBlock how these are checked")
        #expect(Set(entries).subtracting(blocks) == [], "\(page) has them no more")
    }

    @Test(
        "what is read is right, and what runs a block elsewhere is there",
        arguments: DocumentedBlock.pages.keys.sorted()
    )
    func still(_ page: String) async throws {
        for (block, check) in try entries(page) {
            let place = Comment(rawValue: block.testDescription)
            switch check {
            case .none, .output, .sql: break
            case .configuration:
                let file = FileManager.default.temporaryDirectory.appending(path: "block-\(UUID()).yaml")
                defer { try? FileManager.default.removeItem(at: file) }
                try Data(block.text.utf8).write(to: file)
                let loader = ConfigurationLoader(environment: [:])
                let problems = try loader.effective(file: file.path).problems.map(\.description)
                #expect(problems.filter { !$0.contains("database.url: is required") } == [], place)
            case .json:
                #expect(throws: Never.self, place) { try JSONSerialization.jsonObject(with: Data(block.text.utf8)) }
            case .shell:
                let shell = Process()
                shell.executableURL = URL(filePath: "/bin/bash")
                shell.arguments = ["-n", "-c", ShellExample.lines(of: block.lines).joined(separator: "\n")]
                try shell.run()
                shell.waitUntilExit()
                #expect(shell.terminationStatus == 0, place)
            case .source(let path, let texts):
                let source = try Self.read(path)
                for text in texts { #expect(source.contains(text), place) }
            case .labels(let path, let labels):
                let source = try Self.read(path)
                for label in labels {
                    #expect(source.contains(label) && block.text.contains(label), "\(place): \(label)")
                }
            case .test(let path, let name):
                #expect(try Self.read(path).contains("func \(name)("), place)
            case .script(let path):
                #expect(try Self.read(path).contains("follow \(page) \""), place)
            }
        }
    }

    @Test("what is run does and prints what is shown", arguments: DocumentedBlock.pages.keys.sorted())
    func run(_ page: String) async throws {
        for (block, check) in try entries(page) {
            switch check {
            case .sql: try await DocumentedStage(for: "").tryOut(block.text)
            case .output(let words, let columns, let omitted):
                await #expect(throws: Never.self, "\(block.testDescription)") {
                    try await compare(block, words: words, columns: columns, without: omitted)
                }
            default: break
            }
        }
    }

    /// Runs a block's commands one after another, as a reader would.
    private func compare(
        _ block: MarkdownPage.Block,
        words: [String: String],
        columns: Int,
        without omitted: [String]
    ) async throws {
        let stage = try await DocumentedStage(for: block.text)
        for sample in OutputSample.samples(of: block.lines) {
            for command in ShellExample(sample.command).commands where command.first == "upstream-worker" {
                let run = try await stage.run(command.dropFirst().map { words[$0] ?? $0 }, columns: columns)
                let missing = sample.missing(from: run).filter { line in
                    !omitted.contains { line.hasPrefix($0) }
                }
                let printed = "\(block.testDescription): \(command)\n\(run.output)\n\(run.errors)"
                #expect(missing == [], Comment(rawValue: printed))
                // Where a refusal or a finding is shown, it is compared; what shows nothing has to succeed.
                let expected: Set<Int32> = sample.output.isEmpty ? [0] : [0, 1, 64, 65]
                #expect(expected.contains(run.status), Comment(rawValue: printed))
            }
        }
    }
}
