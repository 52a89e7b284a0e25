/// A line of a shell as help and documents show it: the commands in it, as words.
struct ShellExample {
    /// The commands, in order; what a pipe or `&&` connects are several.
    private(set) var commands: [[String]] = []

    /// Splits a line into its commands.
    ///
    /// Known are quotes, comments, pipes, `&&`, `;`, redirections to files, variables in front of a command, and what runs
    /// another command.
    init(_ line: String) {
        var words: [String] = []
        var word: String?
        var quote: Character?
        func endWord() {
            if let complete = word { words.append(complete) }
            word = nil
        }
        func endCommand() {
            endWord()
            let command = Array(Self.unwrapped(words[...]))
            let target = command.firstIndex { $0.hasPrefix(">") || $0.hasPrefix("<") }
            let complete = Array(command[..<(target ?? command.endIndex)])
            if !complete.isEmpty { commands.append(complete) }
            words = []
        }
        for character in line {
            if let open = quote {
                if character == open { quote = nil } else { word?.append(character) }
            } else if character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if character == " " {
                endWord()
            } else if character == "#", word == nil {
                break
            } else if character == "|" || character == "&" || character == ";" {
                endCommand()
            } else {
                word = (word ?? "") + String(character)
            }
        }
        endCommand()
    }

    /// A command without what runs it: keywords, variables, `sudo`, `env` and `systemd-run`.
    private static func unwrapped(_ words: ArraySlice<String>) -> ArraySlice<String> {
        guard let first = words.first else { return words }
        let isVariable = first.contains("=") && first.first?.isUppercase == true
        if isVariable || ["until", "while", "if", "do", "then", "env"].contains(first) {
            return unwrapped(words.dropFirst())
        }
        if first == "sudo" { return unwrapped(words.dropFirst(words.dropFirst().first == "-u" ? 3 : 1)) }
        if first == "systemd-run" { return unwrapped(words.dropFirst().drop { $0.hasPrefix("-") }) }
        return words
    }

    /// The command lines of a block, each on one line: what follows a prompt where there is one, else all that is not the
    /// content of a file.
    static func lines(of block: [String]) -> [String] {
        let hasPrompt = block.contains { $0.hasPrefix("$ ") }
        var lines: [String] = []
        var isContinued = false
        var end: Substring?
        for line in block {
            if let mark = end {
                if line == mark { end = nil }
                continue
            }
            guard isContinued || !hasPrompt || line.hasPrefix("$ ") else { continue }
            let text = hasPrompt && !isContinued ? line.dropFirst(2) : line[...]
            if isContinued { lines[lines.count - 1] += text } else { lines.append(String(text)) }
            isContinued = text.hasSuffix("\\")
            if isContinued { lines[lines.count - 1].removeLast() }
            end = text.firstMatch(of: /<<'(\w+)'/)?.output.1
        }
        return lines
    }

    /// The examples of a help text, each on one line.
    static func examples(in help: String) -> [String] {
        let lines = help.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(of: "Examples:") else { return [] }
        var examples: [String] = []
        var isContinued = false
        for line in lines[(start + 1)...] {
            guard !line.isEmpty else { break }
            var text = line.drop { $0 == " " }
            let continues = text.hasSuffix("\\") || text.hasSuffix("|")
            if text.hasSuffix("\\") { text = text.dropLast() }
            if isContinued { examples[examples.count - 1] += text } else { examples.append(String(text)) }
            isContinued = continues
        }
        return examples
    }
}
