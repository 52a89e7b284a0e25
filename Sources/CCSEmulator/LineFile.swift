import Foundation

/// A file that takes lines, collected in memory and written many at a time.
final class LineFile {
    private let file: FileHandle
    private var lines = Data()
    private let flushLimit = 65_536

    /// Creates the file, readable by its owner only, or empties it.
    ///
    /// - Parameters:
    ///   - path: Where.
    ///   - name: What the file is, for the error.
    /// - Throws: ``EmulatorError``, when it can't be written.
    init(path: String, name: String) throws {
        let isMade = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
        guard isMade, let file = FileHandle(forWritingAtPath: path) else {
            throw EmulatorError(message: "\(name) \(path) cannot be written")
        }
        self.file = file
    }

    /// Adds a line; the newline is added here.
    func append(_ line: Data) {
        lines += line
        lines.append(0x0A)
        if lines.count >= flushLimit { flush() }
    }

    /// Writes what is collected.
    func flush() {
        guard !lines.isEmpty else { return }
        try? file.write(contentsOf: lines)
        lines.removeAll(keepingCapacity: true)
    }

    deinit {
        flush()
        try? file.close()
    }
}

extension Date {
    /// Now, as the lines of files have it: ISO 8601 in UTC with milliseconds.
    static var lineTime: String { Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}
