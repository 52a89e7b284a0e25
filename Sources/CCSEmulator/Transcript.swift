import Foundation
import NIOCore

/// Writes the connections' traffic to a file: one JSON object a line.
///
/// A peer's bytes before sign-in are counted, not shown: they contain its secret.
final class Transcript {
    let file: LineFile

    init(path: String) throws { file = try LineFile(path: path, name: "the transcript file") }

    /// Adds bytes that went `in` or `out`, seen from the emulator.
    func record(_ bytes: ByteBuffer, _ direction: String, of connection: Int, isShown: Bool) {
        let text = isShown ? String(buffer: bytes) : "(\(bytes.readableBytes) bytes before the sign-in, not shown)"
        var line = Data(
            #"{"time":"\#(Date.lineTime)","connection":\#(connection),"direction":"\#(direction)","text":"#
                .utf8
        )
        line += (try? JSONEncoder().encode(text)) ?? Data(#""""#.utf8)
        line += "}".utf8
        file.append(line)
    }
}

/// An emulator failed to start, or a wait timed out.
package struct EmulatorError: Error, Sendable, CustomStringConvertible {
    package var message: String

    package var description: String { message }
}
