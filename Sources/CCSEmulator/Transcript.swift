import Foundation
import NIOCore

/// Writes what goes over the connections to a file: one JSON object a line, with time, connection, direction and text.
///
/// What a peer sends before it has signed in is counted and not shown: its secret is in there.
final class Transcript {
    /// Which way bytes went, seen from the emulator.
    enum Direction: String {
        /// From the peer.
        case received = "in"
        /// To the peer.
        case sent = "out"
    }

    private let file: FileHandle
    private var lines = Data()
    private let flushLimit = 65_536

    /// Creates the file, readable by its owner only, or empties it.
    init(path: String) throws {
        let isMade = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
        guard isMade, let file = FileHandle(forWritingAtPath: path) else {
            throw EmulatorError(message: "the transcript file \(path) cannot be written")
        }
        self.file = file
    }

    /// Adds a line.
    func record(_ bytes: ByteBuffer, connection: Int, direction: Direction, isShown: Bool) {
        let text = isShown ? String(buffer: bytes) : "(\(bytes.readableBytes) bytes before the sign-in, not shown)"
        let time = Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        lines += #"{"time":"\#(time)","connection":\#(connection),"direction":"\#(direction.rawValue)","text":"#.utf8
        lines += (try? JSONEncoder().encode(text)) ?? Data(#""""#.utf8)
        lines += "}\n".utf8
        if lines.count >= flushLimit { flush() }
    }

    /// Writes what is collected.
    func flush() {
        guard !lines.isEmpty else { return }
        try? file.write(contentsOf: lines)
        lines.removeAll(keepingCapacity: true)
    }

    deinit {
        try? file.write(contentsOf: lines)
        try? file.close()
    }
}

/// Why an emulator could not start, or a wait ended without its condition.
package struct EmulatorError: Error, Sendable, CustomStringConvertible {
    /// What is wrong and what would be right.
    package var message: String

    /// For people.
    package var description: String { message }
}
