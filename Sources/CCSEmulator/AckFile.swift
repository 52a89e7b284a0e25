import Digests
import Foundation
import Vocabulary

/// Writes accepted acks to a file for `upstream-worker audit --against`: one JSON object a line.
///
/// A worker's message key depends on its `id_scope`, which a peer doesn't know: each line has the sender and id, and
/// the key that follows from the registration token too (`docs/protocol.md`, "What identifies a message").
final class AckFile {
    let file: LineFile

    init(path: String) throws { file = try LineFile(path: path, name: "the file of acks") }

    /// Adds an ack; an id that is not UTF-8 is left out, since no database could hold it.
    func record(_ id: [UInt8], from token: [UInt8], for sender: String) {
        let parts = Array(sender.utf8) + [0] + token + [0] + id
        guard let id = String(validating: id, as: UTF8.self) else { return }
        var line = JSONWriter()
        line.beginObject()
        line.member("message_id", id)
        line.member("message_key_by_device", parts.withUnsafeBytes { Digest128(hashing: $0) })
        line.member("sender_id", sender)
        line.member("time", Date.lineTime)
        line.endObject()
        file.append(Data(line.bytes))
    }
}
