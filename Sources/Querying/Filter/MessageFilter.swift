import Foundation
package import Postgres
package import UpstreamKit
package import Vocabulary

/// Selects messages; an empty member selects all.
///
/// Replays store its JSON form (`Codable`) with their frozen selection.
package struct MessageFilter: Sendable, Equatable {
    package var categories: [String] = []
    package var senderID: String?
    package var deviceKey: DeviceKey?
    /// The id from the device, compared as bytes.
    package var messageID: String?
    package var messageKey: MessageKey?
    /// Received at or after.
    package var since: Timestamp?
    /// Received before.
    package var until: Timestamp?
    /// Conditions on `data`; all must hold.
    package var clauses: [WhereClause] = []
    /// Whether clauses may look at what ``TokenMask`` masks; without it a clause matches no value that holds it.
    ///
    /// Describes the reader, not the selection: not part of the JSON form.
    package var seesTokens = true

    package init() {}

    package init(messageKey: MessageKey) { self.messageKey = messageKey }

    /// Texts are compared as bytes, as the database does.
    package static func == (lhs: MessageFilter, rhs: MessageFilter) -> Bool {
        func areSame(_ left: String?, _ right: String?) -> Bool {
            left.map { Array($0.utf8) } == right.map { Array($0.utf8) }
        }
        return lhs.categories.elementsEqual(rhs.categories, by: areSame) && areSame(lhs.senderID, rhs.senderID)
            && areSame(lhs.messageID, rhs.messageID) && lhs.deviceKey == rhs.deviceKey
            && lhs.messageKey == rhs.messageKey && lhs.since == rhs.since && lhs.until == rhs.until
            && lhs.clauses.elementsEqual(rhs.clauses) { areSame($0.text, $1.text) } && lhs.seesTokens == rhs.seesTokens
    }

    /// The tables that a filter can select from.
    package enum Table: String, Sendable {
        case messages = "upstream.messages"
        case conflicts = "upstream.conflicts"
    }

    /// The filter as an SQL condition on a table's rows; `true` if nothing narrows.
    package func condition(on table: Table = .messages, alias: String = "m") -> SQL {
        let row: SQL = "\(raw: alias)"
        let key = messageKey?.digest
        let category: SQL? =
            switch categories.count {
            case 0: nil
            case 1: "\(row).category = \(categories[0])"
            default: "\(row).category = ANY (\(categories))"
            }
        let parts: [SQL?] = [
            since.map { "\(row).received_at >= \($0)" },
            until.map { "\(row).received_at < \($0)" },
            key.map { "\(row).message_key = \($0)" },
            // The ledger gives the day, and so the partition.
            table == .conflicts
                ? nil
                : key.map {
                    "\(row).received_at = (SELECT received_at FROM upstream.message_ids WHERE message_key = \($0))"
                },
            messageID.map { condition(messageID: $0, on: table, row: row) },
            deviceKey.map { "\(row).device_key = \($0.digest)" },
            category,
            senderID.map { "\(row).sender_id = \($0)" },
        ]
        return .all(parts + clauses.map { $0.condition(alias: alias, seesTokens: seesTokens) })
    }

    /// Selects by message id: `messages` has no index on the id alone, so a database function finds the few rows by
    /// key.
    private func condition(messageID: String, on table: Table, row: SQL) -> SQL {
        switch table {
        case .messages:
            """
            (\(row).received_at, \(row).message_key) IN (
                SELECT found.received_at, found.message_key FROM upstream.messages_with_id(\(messageID)) AS found
            )
            """
        case .conflicts: "\(row).message_id = \(messageID)"
        }
    }
}

extension MessageFilter: Codable {
    private struct Form: Codable {
        var categories: [String]?
        var sender, device, messageID, messageKey, since, until: String?
        var clauses: [String]?

        enum CodingKeys: String, CodingKey {
            case categories
            case sender
            case device
            case messageID = "message_id"
            case messageKey = "message_key"
            case since
            case until
            case clauses = "where"
        }
    }

    package init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        func read<Value>(_ text: String?, _ key: Form.CodingKeys, _ parse: (String) throws -> Value?) throws -> Value? {
            guard let text else { return nil }
            guard let value = try? parse(text) else {
                throw DecodingError.dataCorrupted(.init(codingPath: [key], debugDescription: "unreadable"))
            }
            return value
        }
        (categories, senderID, messageID) = (form.categories ?? [], form.sender, form.messageID)
        deviceKey = try read(form.device, .device, DeviceKey.init)
        messageKey = try read(form.messageKey, .messageKey, MessageKey.init)
        since = try read(form.since, .since, TimeExpression.moment)
        until = try read(form.until, .until, TimeExpression.moment)
        clauses = try (form.clauses ?? []).compactMap { try read($0, .clauses, WhereClause.init(parsing:)) }
    }

    package func encode(to encoder: any Encoder) throws {
        try Form(
            categories: categories.isEmpty ? nil : categories,
            sender: senderID,
            device: deviceKey?.description,
            messageID: messageID,
            messageKey: messageKey?.description,
            since: since?.rfc3339,
            until: until?.rfc3339,
            clauses: clauses.isEmpty ? nil : clauses.map(\.text)
        ).encode(to: encoder)
    }
}

extension MessageFilter {
    /// The conditions as the audit trail names them, each after a comma; empty without conditions.
    ///
    /// Operands of clauses are left out: they may be part of a payload or a registration token, and the trail holds
    /// neither.
    package var auditText: String {
        var parts = categories.map { "category \($0)" }
        if let senderID { parts.append("sender \(senderID)") }
        if let deviceKey { parts.append("device \(deviceKey)") }
        if let messageID { parts.append("message_id \(messageID)") }
        if let messageKey { parts.append("message \(messageKey)") }
        if let since { parts.append("since \(since.rfc3339)") }
        if let until { parts.append("until \(until.rfc3339)") }
        parts += clauses.map { "where " + $0.textWithoutOperand }
        return parts.map { ", " + $0 }.joined()
    }

    /// A replay's stored selection, shown to a reader with this sight.
    ///
    /// Operands of clauses are parts of payloads, and may be registration tokens.
    ///
    /// - Returns: The JSON form with an ellipsis for each hidden operand; ``Sight/hidden`` if it can't be read.
    package static func shown(_ selection: String, to sight: Sight) -> String {
        guard !(sight.payloads && sight.tokens) else { return selection }
        guard var filter = try? JSONDecoder().decode(MessageFilter.self, from: Data(selection.utf8)) else {
            return Sight.hidden
        }
        guard filter.clauses.contains(where: { !sight.payloads || $0.mayNameToken }) else { return selection }
        filter.clauses = filter.clauses.map { !sight.payloads || $0.mayNameToken ? $0.withoutOperand : $0 }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(filter)).map { String(decoding: $0, as: UTF8.self) } ?? Sight.hidden
    }
}
