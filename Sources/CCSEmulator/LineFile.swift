import Foundation

/// A file of lines, buffered in memory and written many at a time.
final class LineFile {
    private let file: FileHandle
    private var lines = Data()
    private let flushLimit = 65_536

    /// Creates or empties the file, readable by its owner only; `name` describes it in an ``EmulatorError``.
    init(path: String, name: String) throws {
        let isMade = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
        guard isMade, let file = FileHandle(forWritingAtPath: path) else {
            throw EmulatorError(message: "\(name) \(path) cannot be written")
        }
        self.file = file
    }

    func append(_ line: Data) {
        lines += line
        lines.append(0x0A)
        if lines.count >= flushLimit { flush() }
    }

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
    /// The current time for a file's line: ISO 8601 in UTC with milliseconds.
    static var lineTime: String { Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}
