import Digests
import Foundation
package import Vocabulary

/// A line of a file of acked or stored messages, as written by `emulate --acks` or `messages export`.
package struct AckedMessage: Sendable {
    private var messageKey: String?
    /// The message's key where ids are unique only per device (`id_scope: device`); written by `emulate --acks`.
    private var keyByDevice: String?
    var senderID: String?
    var messageID: String?
    private var ackedAt: String?
    private var receivedAt: String?
    /// The keys that a message of an archive would have with other values of `id_scope`, by these.
    private var keysByScope: [String: Digest128] = [:]

    private static let names = [
        "message_key", "message_key_by_device", "sender_id", "message_id", "time", "received_at",
    ]

    /// Reads a line; nil for one of another form.
    fileprivate init?(_ line: [UInt8]) {
        guard let texts = JSONScanner.texts(Self.names, of: line) else { return nil }
        (messageKey, keyByDevice) = (texts["message_key"], texts["message_key_by_device"])
        (senderID, messageID) = (texts["sender_id"], texts["message_id"])
        (ackedAt, receivedAt) = (texts["time"], texts["received_at"])
        guard key != nil else { return nil }
    }

    /// A message of an archive; without a key it belongs in quarantine.
    ///
    /// `others` are the keys that it would have with other values of `id_scope`, by these.
    package init(key: Digest128?, others: [String: Digest128] = [:], sender: String, id: String) {
        (messageKey, senderID, messageID, keysByScope) = (key?.description, sender, id, others)
    }

    /// When the ack or the message was received; RFC 3339.
    var time: String? { ackedAt ?? receivedAt }

    /// The key in the ledger: the line's own, or derived from sender and id; nil if the line has neither.
    var key: Digest128? {
        if let messageKey { return Digest128(uuid: messageKey.utf8) }
        guard let senderID, let messageID else { return nil }
        return Array("\(senderID)\0\(messageID)".utf8).withUnsafeBytes { Digest128(hashing: $0) }
    }

    /// The keys that the message may have in the ledger.
    ///
    /// Where ids are unique only per device, sender and id don't identify the message: another device's may have the
    /// same id.
    ///
    /// - Parameter scopes: What ids of the sender's messages are, or were, unique for (`upstream.senders`).
    /// - Returns: One key, or two where the sender's messages have keys of both forms; none if it can't be told.
    func keys(_ scopes: Set<String>) -> [Digest128] {
        guard let key else { return [] }
        guard messageKey == nil else { return [key] + keysByScope.filter { scopes.contains($0.key) }.values }
        guard scopes.contains("device") else { return [key] }
        guard let ofDevice = keyByDevice.flatMap({ Digest128(uuid: $0.utf8) }) else { return [] }
        return scopes.contains("sender") ? [ofDevice, key] : [ofDevice]
    }

    /// Whether no column can hold the id or the sender: such a message is quarantined without its id
    /// (`docs/protocol.md`).
    var isBeyondText: Bool {
        [senderID, messageID].compactMap(\.self).contains { $0.utf8.count > 4_096 || $0.utf8.contains(0) }
    }

    var title: String { messageID.map { "\(senderID ?? "?") \($0)" } ?? messageKey ?? "?" }
}

/// Reads a file of acked messages, line by line.
package struct AckedFile: Sendable {
    /// A reason why a file can't be used.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package var description: String
        /// Whether the file is missing or unreadable.
        package var isMissing = false
    }

    /// The longest line, as of an import: an export's holds the message's data, of 8 MiB at most, maybe twice.
    private static let lineLimit = 24 << 20
    private static let part = 1 << 18

    private let handle: FileHandle
    private let path: String
    /// The file's size in bytes; 0 if unknown.
    package let size: Int64
    /// How many bytes have been read.
    package private(set) var position: Int64 = 0
    private var lines = LineSplitter(limit: lineLimit + part)
    private var line = 0
    private var isAtEnd = false

    /// Opens a file.
    package init(_ path: String) throws(Failure) {
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw Failure(description: "cannot read \(path)", isMissing: true)
        }
        self.handle = handle
        self.path = path
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        size = (attributes?[.size] as? NSNumber)?.int64Value ?? 0
    }

    /// The next lines; empty at the end.
    ///
    /// - Throws: ``Failure`` with the number of the first line of neither form.
    package mutating func next() throws(Failure) -> [AckedMessage] {
        var found: [AckedMessage] = []
        while found.isEmpty, !isAtEnd {
            guard let part = try? handle.read(upToCount: Self.part) ?? Data() else {
                throw Failure(description: "cannot read \(path)")
            }
            isAtEnd = part.isEmpty
            position += Int64(part.count)
            for line in isAtEnd ? lines.finish() : lines.add(Array(part)[...]) {
                if let message = try read(line) { found.append(message) }
            }
            // At once: a line without an end would be read for ever.
            if lines.isDropping, !isAtEnd { throw tooLong(line + 1) }
        }
        return found
    }

    private func tooLong(_ line: Int) -> Failure {
        Failure(description: "\(path):\(line): the line is over \(Self.lineLimit) bytes")
    }

    private mutating func read(_ text: LineSplitter.Line) throws(Failure) -> AckedMessage? {
        line += 1
        guard !text.isTooLong else { throw tooLong(line) }
        guard !text.bytes.allSatisfy({ $0 == 0x20 || $0 == 0x0D }) else { return nil }
        guard let message = AckedMessage(text.bytes) else {
            throw Failure(
                description:
                    "\(path):\(line): not a JSON object with a message_key, or with sender_id and message_id, as "
                    + "`emulate --acks` and `messages export` write them"
            )
        }
        return message
    }
}
