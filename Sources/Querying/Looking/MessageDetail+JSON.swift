import Foundation
import UpstreamKit
import Vocabulary

extension MessageDetail {
    /// The message's own JSON object with `ledger`, `deliveries`, `dead_letters`, `attempts` and `conflicts` added to it;
    /// `more_conflicts` where some were left out.
    ///
    /// - Parameters:
    ///   - tokens: Whether registration tokens are written.
    ///   - payloads: Whether what devices sent is written.
    ///   - isForTerminal: Whether characters that a terminal may act on are escaped, too.
    /// - Returns: One line without its end.
    /// - Throws: What `JSONEncoder` does.
    package func json(tokens: Bool, payloads: Bool = true, isForTerminal: Bool) throws -> [UInt8] {
        var lines = MessageLines(.ndjson, tokens: tokens, payloads: payloads, isForTerminal: isForTerminal)
        if let row {
            lines.appendObject(page, row)
        } else {
            lines.append(text: #"{"message_key":"\#(messageKey)"}"#)
        }
        var object = lines.take()
        object.removeLast()
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let known = try encoder.encode(
            Known(
                ledger: ledger.map {
                    Known.Ledger(fingerprint: $0.fingerprint?.description, receivedAt: $0.receivedAt.rfc3339)
                },
                deliveries: deliveries.map(Known.Delivery.init),
                deadLetters: deadLetters.map(Known.Delivery.init),
                attempts: attempts.map(Known.Attempt.init),
                conflictsWith: conflictsWith?.description
            )
        )
        object.append(UInt8(ascii: ","))
        var bytes = [UInt8](known.dropFirst().dropLast())
        if isForTerminal {
            let plain = bytes
            bytes = []
            plain.withUnsafeBytes { JSONEscape.jsonForTerminal.append($0, to: &bytes) }
        }
        object += bytes
        object += ",\"conflicts\":[".utf8
        for (index, conflict) in conflicts.enumerated() {
            if index > 0 { object.append(UInt8(ascii: ",")) }
            object += conflict.json(tokens: tokens, payloads: payloads, isForTerminal: isForTerminal)
        }
        object += "]".utf8
        if hasMoreConflicts { object += ",\"more_conflicts\":true".utf8 }
        object += "}".utf8
        return object
    }

    /// The message's own JSON object alone; nil where retention has deleted the body.
    ///
    /// - Parameters:
    ///   - tokens: Whether the registration token is written.
    ///   - payloads: Whether what the device sent is written.
    /// - Returns: One line without its end.
    package func storedJSON(tokens: Bool, payloads: Bool) -> [UInt8]? {
        guard let row else { return nil }
        var lines = MessageLines(.ndjson, tokens: tokens, payloads: payloads)
        lines.appendObject(page, row)
        return lines.take()
    }

    private struct Known: Encodable {
        struct Ledger: Encodable {
            var fingerprint: String?
            var receivedAt: String
        }

        struct Delivery: Encodable {
            var handler: String
            var attempts: Int
            var nextAttemptAt: String
            var leaseOwner: String?
            var leaseUntil: String?
            var lastError: String?
            var replayId: String?
            var errorGroup: String?
            var diedAt: String?

            init(_ row: DeliveryRow) {
                handler = row.handler
                attempts = row.attempts
                nextAttemptAt = row.nextAttemptAt.rfc3339
                leaseOwner = row.leaseOwner
                leaseUntil = row.leaseUntil.map(\.rfc3339)
                lastError = row.lastError
                replayId = row.replayID?.description
                errorGroup = row.errorGroup
                diedAt = row.diedAt.map(\.rfc3339)
            }
        }

        struct Attempt: Encodable {
            var handler: String
            var attempt: Int
            var startedAt: String
            var durationSeconds: Double?
            var outcome: String
            var status: Int?
            var errorGroup: String?
            var worker: String

            init(_ row: AttemptRow) {
                handler = row.handler
                attempt = row.attempt
                startedAt = row.startedAt.rfc3339
                durationSeconds = row.duration?.inSeconds
                outcome = row.outcome
                status = row.status
                errorGroup = row.errorGroup
                worker = row.worker
            }
        }

        var ledger: Ledger?
        var deliveries: [Delivery]
        var deadLetters: [Delivery]
        var attempts: [Attempt]
        var conflictsWith: String?
    }
}
