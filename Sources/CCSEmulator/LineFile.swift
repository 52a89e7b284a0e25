import Digests
import Foundation
import NIOCore
import Vocabulary

/// A file of JSON objects, one a line, buffered in memory and written many at a time.
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

    /// Adds a connection's bytes that went `in` or `out`, seen from the emulator, to a transcript.
    ///
    /// A peer's bytes before sign-in are counted, not shown: they contain its secret.
    func record(_ bytes: ByteBuffer, _ direction: String, of connection: Int, isShown: Bool) {
        let text = isShown ? String(buffer: bytes) : "(\(bytes.readableBytes) bytes before the sign-in, not shown)"
        var line = Data(#"{"time":"\#(now)","connection":\#(connection),"direction":"\#(direction)","text":"#.utf8)
        line += (try? JSONEncoder().encode(text)) ?? Data(#""""#.utf8)
        line += "}".utf8
        append(line)
    }

    /// Adds an accepted ack, for `upstream-worker audit --against`; an id that is not UTF-8 is left out, since no database
    /// could hold it.
    ///
    /// A worker's message key depends on its `id_scope`, which a peer doesn't know: each line has the sender and id, and
    /// the key that follows from the registration token too (`docs/protocol.md`, "What identifies a message").
    func record(ack id: [UInt8], from token: [UInt8], for sender: String) {
        let parts = Array(sender.utf8) + [0] + token + [0] + id
        guard let id = String(validating: id, as: UTF8.self) else { return }
        var line = JSONWriter()
        line.beginObject()
        line.member("message_id", id)
        line.member("message_key_by_device", parts.withUnsafeBytes { Digest128(hashing: $0) })
        line.member("sender_id", sender)
        line.member("time", now)
        line.endObject()
        append(Data(line.bytes))
    }

    /// The current time: ISO 8601 in UTC with milliseconds.
    private var now: String { Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }

    private func append(_ line: Data) {
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
