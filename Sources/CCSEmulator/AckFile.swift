import Digests
import Foundation
import Vocabulary

/// Writes accepted acks to a file for `upstream-worker audit --against`: one JSON object a line.
///
/// A worker's message key depends on its `id_scope`, which a peer doesn't know: each line has the sender and id, and
/// the key that follows from the registration token too (`docs/protocol.md`, "What identifies a message").
final class AckFile {
    let file: LineFile
    private let encoder = JSONEncoder()

    private struct Line: Encodable {
        var time: String
        var senderID: String
        var messageID: String
        var keyByDevice: String?

        enum CodingKeys: String, CodingKey {
            case time
            case senderID = "sender_id"
            case messageID = "message_id"
            case keyByDevice = "message_key_by_device"
        }
    }

    init(path: String) throws {
        file = try LineFile(path: path, name: "the file of acks")
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    }

    /// Adds an ack; an id that is not UTF-8 is left out, since no database could hold it.
    func record(_ id: [UInt8], from token: [UInt8], for sender: String) {
        let key = Self.key(ofDevice: token, id, for: sender)
        guard let id = String(validating: id, as: UTF8.self) else { return }
        let line = Line(time: Date.lineTime, senderID: sender, messageID: id, keyByDevice: key)
        if let line = try? encoder.encode(line) { file.append(line) }
    }

    private static func key(ofDevice token: [UInt8], _ id: [UInt8], for sender: String) -> String {
        let parts = Array(sender.utf8) + [0] + token + [0] + id
        return "\(parts.withUnsafeBytes { Digest128(hashing: $0) })"
    }
}
