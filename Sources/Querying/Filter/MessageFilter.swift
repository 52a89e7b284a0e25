package import Postgres
package import UpstreamKit
package import Vocabulary

/// Selects messages; an empty member selects all.
///
/// Replays store its JSON form (`Codable`) with their frozen selection.
package struct MessageFilter: Sendable, Equatable {
    package var categories: [String] = []
    /// The sender that they were addressed to.
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

    /// Texts are compared as bytes, as the database does.
    package static func == (lhs: MessageFilter, rhs: MessageFilter) -> Bool {
        func areSame(_ left: String?, _ right: String?) -> Bool {
            left.map { Array($0.utf8) } == right.map { Array($0.utf8) }
        }
        return lhs.categories.elementsEqual(rhs.categories, by: areSame) && areSame(lhs.senderID, rhs.senderID)
            && areSame(lhs.messageID, rhs.messageID) && lhs.deviceKey == rhs.deviceKey
            && lhs.messageKey == rhs.messageKey && lhs.since == rhs.since && lhs.until == rhs.until
            && lhs.clauses == rhs.clauses && lhs.seesTokens == rhs.seesTokens
    }

    /// Whether an index or partition pruning keeps a query from reading every message.
    package var isNarrow: Bool {
        !categories.isEmpty || deviceKey != nil || messageID != nil || messageKey != nil || since != nil
    }

    /// Whether a condition must be checked row by row, because no index serves it.
    package var hasResidue: Bool { !clauses.isEmpty || senderID != nil }

    /// The filter without such conditions: it selects the rows to be read.
    package var withoutResidue: MessageFilter {
        var filter = self
        filter.clauses = []
        filter.senderID = nil
        return filter
    }

    /// The tables that a filter can select from.
    package enum Table: String, Sendable {
        case messages = "upstream.messages"
        /// Copies with other content.
        case conflicts = "upstream.conflicts"
    }

    /// The filter as an SQL condition on a table's rows; `true` if nothing narrows.
    package func condition(on table: Table = .messages, alias: String = "m") -> SQL {
        let row: SQL = "\(raw: alias)"
        var parts: [SQL] = []
        if let since { parts.append("\(row).received_at >= \(since)") }
        if let until { parts.append("\(row).received_at < \(until)") }
        if let key = messageKey?.digest {
            parts.append("\(row).message_key = \(key)")
            if table == .messages {
                // The ledger gives the day, and so the partition.
                parts.append(
                    "\(row).received_at = (SELECT received_at FROM upstream.message_ids WHERE message_key = \(key))"
                )
            }
        }
        if let messageID { parts.append(condition(messageID: messageID, on: table, row: row)) }
        if let deviceKey { parts.append("\(row).device_key = \(deviceKey.digest)") }
        if categories.count == 1 {
            parts.append("\(row).category = \(categories[0])")
        } else if !categories.isEmpty {
            parts.append("\(row).category = ANY (\(categories))")
        }
        if let senderID { parts.append("\(row).sender_id = \(senderID)") }
        for clause in clauses { parts.append(clause.condition(alias: alias, seesTokens: seesTokens)) }
        return parts.isEmpty ? "true" : .joined(parts, separator: " AND ")
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
    private enum CodingKeys: String, CodingKey {
        case categories
        case sender
        case device
        case messageID = "message_id"
        case messageKey = "message_key"
        case since
        case until
        case clauses = "where"
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        func failure(_ key: CodingKeys, _ text: String) -> DecodingError {
            .dataCorruptedError(forKey: key, in: members, debugDescription: text)
        }
        func time(_ key: CodingKeys) throws -> Timestamp? {
            guard let text = try members.decodeIfPresent(String.self, forKey: key) else { return nil }
            do throws(FilterError) {
                return try TimeExpression.moment(text)
            } catch {
                throw failure(key, error.message)
            }
        }
        categories = try members.decodeIfPresent([String].self, forKey: .categories) ?? []
        senderID = try members.decodeIfPresent(String.self, forKey: .sender)
        messageID = try members.decodeIfPresent(String.self, forKey: .messageID)
        since = try time(.since)
        until = try time(.until)
        if let text = try members.decodeIfPresent(String.self, forKey: .device) {
            guard let key = DeviceKey(text) else { throw failure(.device, "not a device key") }
            deviceKey = key
        }
        if let text = try members.decodeIfPresent(String.self, forKey: .messageKey) {
            guard let key = MessageKey(text) else { throw failure(.messageKey, "not a message key") }
            messageKey = key
        }
        for text in try members.decodeIfPresent([String].self, forKey: .clauses) ?? [] {
            do throws(FilterError) {
                clauses.append(try WhereClause(parsing: text))
            } catch {
                throw failure(.clauses, error.description)
            }
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        if !categories.isEmpty { try members.encode(categories, forKey: .categories) }
        try members.encodeIfPresent(senderID, forKey: .sender)
        try members.encodeIfPresent(deviceKey?.description, forKey: .device)
        try members.encodeIfPresent(messageID, forKey: .messageID)
        try members.encodeIfPresent(messageKey?.description, forKey: .messageKey)
        try members.encodeIfPresent(since.map(\.rfc3339), forKey: .since)
        try members.encodeIfPresent(until.map(\.rfc3339), forKey: .until)
        if !clauses.isEmpty { try members.encode(clauses.map(\.text), forKey: .clauses) }
    }
}
