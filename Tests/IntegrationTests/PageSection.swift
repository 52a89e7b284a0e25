import Foundation
import IntegrationSupport
import Testing

/// One section of a page: what stands between its heading and the next.
struct PageSection {
    private var lines: [Substring]

    /// The section with this heading, of whatever level.
    init(_ heading: String, of page: String) throws {
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex { $0.hasPrefix("##") && $0.hasSuffix("# \(heading)") })
        var isCode = false
        let rest = lines[(start + 1)...].prefix { line in
            if line.hasPrefix("```") { isCode.toggle() }
            return isCode || !line.hasPrefix("#")
        }
        self.lines = Array(rest)
    }

    /// A block in this language, by default the first.
    func block(_ language: String, _ number: Int = 1) throws -> String {
        let starts = lines.indices.filter { lines[$0] == "```\(language)" }
        try #require(starts.count >= number, "no block in \(language)")
        let start = starts[number - 1]
        return lines[(start + 1)...].prefix { $0 != "```" }.map { $0 + "\n" }.joined()
    }

    /// The list below `handlers:` in its YAML.
    func handlers() throws -> String {
        let block = try block("yaml")
        #expect(block.hasPrefix("handlers:\n"))
        return String(block.dropFirst("handlers:\n".count))
    }
}

/// Runs a page's blocks of bash in a folder, one after another as in one shell.
struct PageShell {
    let folder: URL
    /// The variables that later blocks use.
    let variables: [String]
    /// Whether it runs as the user of PostgreSQL's server: its programs refuse root.
    var isServer = false

    func run(_ block: String) throws {
        let script = """
            set -e -o pipefail
            [ ! -e state ] || . ./state
            \(block)
            result=$?
            { declare -f; declare -p \(variables.joined(separator: " ")); } >state 2>/dev/null || true
            exit $result
            """
        let asServer = ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        let words = (isServer && getuid() == 0 ? asServer : []) + ["/bin/bash", "-c", script]
        let shell = Process()
        shell.executableURL = URL(filePath: words[0])
        shell.arguments = Array(words.dropFirst())
        shell.currentDirectoryURL = folder
        let programs = try ChildWorker.program().deletingLastPathComponent().path
        shell.environment = ["PATH": "\(programs):/usr/bin:/bin", "LC_ALL": "C"]
        let output = Pipe()
        shell.standardOutput = output
        shell.standardError = output
        try shell.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        shell.waitUntilExit()
        try #require(shell.terminationStatus == 0, "\(block)\n\(text)")
    }
}
