package import MessageStore
package import Postgres
package import Querying
import Vocabulary
package import XMLWire
package import XMPP

/// Judges quarantined stanzas again, by the settings and the rules of now, and stores those that are messages.
///
/// Each passes through framer and codec as on its stream, and is stored and delivered by the rules for received messages, as
/// received now. Nothing is acked: what could be acked was, and what comes again is then a duplicate. A stanza is dismissed
/// once it is stored, and a stored one is a duplicate the next time, so an interrupted run is simply repeated.
package struct StanzaRetry: Sendable {
    package struct Report: Sendable, Encodable {
        package var stored = 0
        /// Stanzas whose message was stored already with the same content.
        package var duplicates = 0
        /// Stanzas whose message was stored already with other content; they go to `conflicts`.
        package var conflicts = 0
        /// Why the others are still no messages, in constant words, with their number.
        package var refused: [String: Int] = [:]

        package init() {}

        mutating func add(_ outcomes: [StoreOutcome]) {
            if outcomes.contains(.conflict) {
                conflicts += 1
            } else if outcomes.contains(.stored) {
                stored += 1
            } else {
                duplicates += 1
            }
        }
    }

    private struct Refusal: Error {
        var why: String
    }

    private let settings: PostgresSettings
    private let senders: [StreamSettings]
    private let limits: StreamLimits

    /// Sets up for the configured senders, each at its own index.
    package init(_ settings: PostgresSettings, senders: [StreamSettings], limits: StreamLimits) {
        (self.settings, self.senders, self.limits) = (settings, senders, limits)
    }

    /// Takes a query's stanzas, the oldest first; a dry run compares and changes nothing.
    ///
    /// - Throws: `StoreError` and `PostgresError`: the rest was not tried.
    package func run(
        _ query: QuarantineQuery,
        total: Int,
        over connection: PostgresConnection,
        by author: AuditAuthor,
        isDryRun: Bool
    ) async throws -> Report {
        let subject = "quarantine" + query.description
        if !isDryRun {
            try await AuditLog.record(over: connection, .retryStanzas, subject, count: total, by: author)
        }
        let store = MessageStore(settings, senders: senders.map(\.senderID))
        let report: Report
        do {
            report = try await run(query, store, over: connection, isDryRun: isDryRun)
        } catch {
            await store.close()
            throw error
        }
        await store.close()
        if !isDryRun {
            let done = report.stored + report.duplicates + report.conflicts
            try await AuditLog.record(over: connection, .retryStanzas, subject, count: done, by: author, isEnd: true)
        }
        return report
    }

    private func run(
        _ query: QuarantineQuery,
        _ store: MessageStore,
        over connection: PostgresConnection,
        isDryRun: Bool
    ) async throws -> Report {
        var (query, report) = (query, Report())
        (query.order, query.hasStanzas, query.limit, query.byteLimit) = (.oldestFirst, true, 500, 4 << 20)
        while true {
            let page = try await query.next(connection)
            for row in page.rows {
                try Task.checkCancellation()
                do {
                    let messages = try judge(row, at: try await connection.databaseTime())
                    let outcomes = try await isDryRun ? store.compare(messages) : load(messages, store)
                    report.add(outcomes)
                    if !isDryRun { try await dismiss(row, over: connection) }
                } catch let refusal as Refusal {
                    report.refused[refusal.why, default: 0] += 1
                }
            }
            guard page.isFull else { return report }
        }
    }

    private func load(_ messages: [IncomingMessage], _ store: MessageStore) async throws -> [StoreOutcome] {
        do throws(StoreError) {
            return try await store.load(messages, isDelivered: true)
        } catch {
            guard error.kind == .refused else { throw error }
            throw Refusal(why: "\(QuarantineReason.databaseRefused.rawValue): \(error.message)")
        }
    }

    private func dismiss(_ row: QuarantineRow, over connection: PostgresConnection) async throws {
        var one = QuarantineQuery()
        one.id = row.id
        _ = try await connection.result(of: QuarantineStatements.dismiss(one.condition, limit: 1))
    }

    /// The messages of a stanza as a stream of its sender would have them.
    private func judge(_ row: QuarantineRow, at now: Timestamp) throws -> [IncomingMessage] {
        guard let sender = senders.first(where: { $0.senderID == row.senderID }) else {
            throw Refusal(why: "its sender is not in the configuration")
        }
        var codec = UpstreamCodec(sender)
        if let own = JID(sender.address) { codec.bound(to: own) }
        let isComponent = sender.dialect == .component
        let namespace = isComponent ? XMLNamespace.component : XMLNamespace.client
        let head = "<stream:stream xmlns='\(namespace)' xmlns:stream='\(XMLNamespace.streams)' version='1.0'>"
        var found: DecodedStanza?
        let framer = XMLFramer(limits: limits)
        do {
            try (Array(head.utf8) + row.stanza.bytes).withUnsafeBytes { bytes in
                try framer.feed(bytes) { event in
                    guard case .stanza(let stanza) = event, found == nil else { return }
                    if isComponent { stanza.moveElements(from: XMLNamespace.component, to: XMLNamespace.client) }
                    found = codec.decode(stanza, receivedAt: now.microseconds, parsedAt: 0)
                }
            }
        } catch {
            throw Refusal(why: "its bytes are no stanza by themselves")
        }
        let messages: [IncomingMessage]
        switch found {
        case .message(let message): messages = [message]
        case .messages(let several): messages = several
        case .untrusted: throw Refusal(why: "its server is not trusted to send it (trusted_from)")
        default: throw Refusal(why: "it has none of its sender's forms (payload)")
        }
        for message in messages {
            guard let reason = message.quarantine else { continue }
            throw Refusal(why: "\(reason.rawValue): \(message.quarantineDetail)")
        }
        return messages
    }
}
