package import Postgres
package import Vocabulary

extension Conservation {
    private struct Compared: Sendable {
        var looked: Int64 = 0
        /// The positions, from 0, of lines that neither the ledger nor the quarantine knows.
        var unknown: [Int] = []
        /// Lines without a key, of messages whose ids are unique only per device.
        var keyless: Int64 = 0
    }

    /// Checks that each message of a file is in the ledger or in quarantine.
    ///
    /// Three kinds are counted as unverifiable, not as wrong: messages acked before `retention.messages` (or
    /// `retention.dedupe_window`, if that is shorter), which may have been deleted; ids that no column can hold, which
    /// are quarantined without them; and ids that are unique only per device, without the message's key.
    ///
    /// - Throws: `PostgresError`, ``AckedFile/Failure``.
    package func compare(
        with file: consuming AckedFile,
        _ report: inout ConservationReport,
        progress: Progress = { _, _ in }
    ) async throws {
        report.update(.ackedIsKnown, 0, wrong: 0, [])
        let oldest = try await oldest()
        var keyless: Int64 = 0
        while case let messages = try file.next(), !messages.isEmpty {
            keyless += try await compare(messages, .ackedIsKnown, oldest, &report)
            progress(file.position, file.size)
        }
        report.unverifiable += keyless
        guard keyless > 0 else { return }
        report.remarks.append(
            "\(keyless) acks are of senders whose ids are unique for a device alone (id_scope: device), and the file has no key "
                + "of the message: they were not looked up. `emulate --acks` writes message_key_by_device"
        )
    }

    /// Before when messages may have been deleted; nil for never.
    package func oldest() async throws(PostgresError) -> Timestamp? {
        try await connection.result(of: AuditCheckStatements.oldest).rows(as: Timestamp.self).first
    }

    /// What of a sender's archive can be judged; nil if nothing can, which a remark says.
    ///
    /// Without `since` that is what the archive was asked for: what it got before catching up began need not be known.
    /// What is older than retention keeps may have been deleted, and what is of the last minute may be under way.
    package func range(
        ofArchive archive: String,
        of sender: String,
        _ report: inout ConservationReport
    ) async throws(PostgresError) -> (since: Timestamp?, until: Timestamp)? {
        report.update(.archivedIsKnown, 0, wrong: 0, [])
        let (oldest, now) = (try await oldest(), try await connection.databaseTime())
        let end = min(until, now - .seconds(60))
        guard since.microseconds == .min else { return (max(since, oldest ?? since), end) }
        let found = try await connection.result(of: AuditCheckStatements.begun(sender, archive))
        guard let begun = try found.rows(as: Timestamp.self).first else {
            report.remarks.append("\(sender): its archive was never asked for anything; --since judges it all the same")
            return nil
        }
        // Servers that stamp whole seconds: what came in the same one may be from before.
        let first = begun + .seconds(1)
        if let oldest, oldest >= first { return (oldest, end) }
        report.remarks.append(
            "\(sender): what its archive got before \(first.rfc3339), when catching up began, is not judged; --since judges it"
        )
        return (first, end)
    }

    /// Checks that each of these messages of an archive is in the ledger or in quarantine.
    ///
    /// One that belongs in quarantine and has no id can't be told.
    package func compare(
        archived messages: [AckedMessage],
        _ report: inout ConservationReport
    ) async throws(PostgresError) {
        report.update(.archivedIsKnown, 0, wrong: 0, [])
        let named = messages.filter { $0.messageID?.isEmpty == false }
        report.unverifiable += Int64(messages.count - named.count)
        report.unverifiable += try await compare(named, .archivedIsKnown, nil, &report)
    }

    /// Looks messages up, part by part; returns how many have no key.
    private func compare(
        _ messages: [AckedMessage],
        _ check: ConservationCheck,
        _ oldest: Timestamp?,
        _ report: inout ConservationReport
    ) async throws(PostgresError) -> Int64 {
        var keyless: Int64 = 0
        for start in stride(from: 0, to: messages.count, by: 1_000) {
            let some = Array(messages[start..<min(start + 1_000, messages.count)])
            let compared = try await compare(some)
            report.update(check, compared.looked, wrong: 0, [])
            keyless += compared.keyless
            for message in compared.unknown.map({ some[$0] }) {
                let time = message.time.flatMap { try? Timestamp(parsing: $0) }
                let isOld = oldest.flatMap { oldest in time.map { $0 < oldest } } ?? false
                if message.isBeyondText || isOld {
                    report.unverifiable += 1
                } else {
                    report.update(check, 0, wrong: 1, [message.title])
                }
            }
        }
        return keyless
    }

    /// Looks up some lines in one snapshot, each table once.
    private func compare(_ messages: [AckedMessage]) async throws(PostgresError) -> Compared {
        try await part { connection throws(PostgresError) in
            var scopes: [String: Set<String>] = [:]
            for (sender, scope) in try connection.run(AuditCheckStatements.scopes).rows(as: (String, String).self) {
                scopes[sender, default: []].insert(scope)
            }
            let keys = messages.map { $0.keys(scopes[$0.senderID ?? ""] ?? []) }
            let flat = keys.flatMap(\.self)
            let places = try connection.run(AuditCheckStatements.unknown(flat)).rows(as: Int.self)
            let unknown = Set(places.filter { flat.indices.contains($0 - 1) }.map { flat[$0 - 1] })
            var compared = Compared()
            compared.keyless = Int64(keys.count(where: \.isEmpty))
            compared.looked = Int64(keys.count) - compared.keyless
            compared.unknown = keys.indices.filter { !keys[$0].isEmpty && keys[$0].allSatisfy(unknown.contains) }
            try Self.takeQuarantined(connection, messages, &compared)
            return compared
        }
    }

    /// Removes what is in quarantine from the unknown.
    private static func takeQuarantined(
        _ connection: isolated PostgresConnection,
        _ messages: [AckedMessage],
        _ compared: inout Compared
    ) throws(PostgresError) {
        let asked = compared.unknown.compactMap { index -> (index: Int, sender: String, id: String)? in
            let message = messages[index]
            guard !message.isBeyondText, let sender = message.senderID, let id = message.messageID else { return nil }
            return (index, sender, id)
        }
        guard !asked.isEmpty else { return }
        let sql = AuditCheckStatements.quarantined(asked.map(\.sender), asked.map(\.id))
        let found = try connection.run(sql).rows(as: Int.self)
        let known = Set(found.filter { asked.indices.contains($0 - 1) }.map { asked[$0 - 1].index })
        compared.unknown.removeAll(where: known.contains)
    }
}
