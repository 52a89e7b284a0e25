import Vocabulary

/// A step of the schema: a file of `migrations/` in dbmate's format.
package struct Migration: Sendable, Equatable {
    /// The files of `migrations/`, oldest first.
    package static let embedded = EmbeddedFiles.all.map {
        Migration(fileName: $0.name.description, text: $0.text.description)
    }

    /// The digits at the start of the file name, which order the steps.
    package let version: String
    /// The rest of the file name, without its ending.
    package let name: String
    /// The script that applies the step.
    package let up: String
    /// The script that rolls it back.
    package let down: String
    /// FNV-1a over the whole file, 16 hex digits: detects a file edited after it was applied.
    package let checksum: String

    /// Parses a file `VERSION_name.sql` with one `-- migrate:up` and one `-- migrate:down`.
    package init(fileName: String, text: String) {
        let stem = fileName.hasSuffix(".sql") ? String(fileName.dropLast(4)) : fileName
        version = String(stem.prefix { $0.isASCII && $0.isNumber })
        name = String(stem.dropFirst(version.count).drop { $0 == "_" })
        var up: [Substring] = []
        var down: [Substring] = []
        var isDown = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("-- migrate:up") {
                isDown = false
            } else if line.hasPrefix("-- migrate:down") {
                isDown = true
            } else if isDown {
                down.append(line)
            } else {
                up.append(line)
            }
        }
        self.up = up.joined(separator: "\n")
        self.down = down.joined(separator: "\n")
        checksum = Hex.encode(FNV1a.hash(text))
    }
}
