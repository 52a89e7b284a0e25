import Foundation

// Embed OUTPUT FILE...: writes a Swift file with the names and texts of other files.
let arguments = CommandLine.arguments.dropFirst()
guard let output = arguments.first else { fatalError("usage: Embed OUTPUT FILE...") }
var source = """
    /// The files that the package embeds here, by name.
    enum EmbeddedFiles {
        static let all: [(name: StaticString, text: StaticString)] = [

    """
for path in arguments.dropFirst() {
    let file = URL(filePath: path)
    let text = try String(contentsOf: file, encoding: .utf8)
    // The line end before the closing quotation marks is not part of the literal.
    source += "        (\"\(file.lastPathComponent)\", ####\"\"\"\n\(text)\n\"\"\"####),\n"
}
source += "    ]\n}\n"
try source.write(toFile: output, atomically: true, encoding: .utf8)
