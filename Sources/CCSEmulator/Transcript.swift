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

    private let file: LineFile

    /// Creates the file, readable by its owner only, or empties it.
    init(path: String) throws {
        file = try LineFile(path: path, name: "the transcript file")
    }

    /// Adds a line.
    func record(_ bytes: ByteBuffer, connection: Int, direction: Direction, isShown: Bool) {
        let text = isShown ? String(buffer: bytes) : "(\(bytes.readableBytes) bytes before the sign-in, not shown)"
        var line = Data(
            #"{"time":"\#(Date.lineTime)","connection":\#(connection),"direction":"\#(direction.rawValue)","text":"#
                .utf8
        )
        line += (try? JSONEncoder().encode(text)) ?? Data(#""""#.utf8)
        line += "}".utf8
        file.append(line)
    }

    /// Writes what is collected.
    func flush() { file.flush() }
}

/// Why an emulator could not start, or a wait ended without its condition.
package struct EmulatorError: Error, Sendable, CustomStringConvertible {
    /// What is wrong and what would be right.
    package var message: String

    /// For people.
    package var description: String { message }
}
