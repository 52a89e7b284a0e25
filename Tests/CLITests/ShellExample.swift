/// A line of a shell as help and documents show it: the commands in it, as words.
struct ShellExample {
    /// The commands, in order; what a pipe or `&&` connects are several.
    private(set) var commands: [[String]] = []

    /// Splits a line into its commands.
    ///
    /// Known are quotes, comments, pipes, `&&`, redirections to files and variables in front of a command.
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
            var command = Array(words.drop { $0.contains("=") && $0.first?.isUppercase == true })
            if command.first == "sudo" { command.removeFirst(command.dropFirst().first == "-u" ? 3 : 1) }
            let target = command.firstIndex { $0 == ">" || $0 == "<" }
            if !command.isEmpty { commands.append(Array(command[..<(target ?? command.endIndex)])) }
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
            } else if character == "|" || character == "&" {
                endCommand()
            } else {
                word = (word ?? "") + String(character)
            }
        }
        endCommand()
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
