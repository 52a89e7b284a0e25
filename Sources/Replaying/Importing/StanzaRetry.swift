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
        /// Why the others stay, in constant words, with their number.
        package var refused: [String: Int] = [:]
        /// The first ids of each.
        package var staying: [String: [Int64]] = [:]
        /// Whether some stay for want of time alone.
        package var isShortOfTime: Bool { refused[StanzaRetry.tooLate] != nil }

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

        mutating func refuse(_ id: Int64, _ why: String) {
            refused[why, default: 0] += 1
            if staying[why, default: []].count < StanzaRetry.examples { staying[why, default: []].append(id) }
        }
    }

    /// Finds the limits that a sender's server announces, by the sender's index; nil if it can't be asked.
    package typealias LimitFinder = @Sendable (Int) async -> ServerLimits?

    /// How many ids of those that stay are told for each reason.
    package static let examples = 20
    fileprivate static let tooLate = "the database did not answer in time: try it again"

    private struct Refusal: Error {
        var why: String
    }

    private let settings: PostgresSettings
    private let senders: [StreamSettings]
    private let limits: StreamLimits
    private let findLimits: LimitFinder

    /// Sets up for the configured senders, each at its own index.
    ///
    /// A server is asked for its limits where a stanza was too large for its ack.
    package init(
        _ settings: PostgresSettings,
        senders: [StreamSettings],
        limits: StreamLimits,
        findLimits: @escaping LimitFinder
    ) {
        (self.settings, self.senders, self.limits, self.findLimits) = (settings, senders, limits, findLimits)
    }

    /// Takes a query's stanzas, the oldest first; a dry run compares and changes nothing; `progress` gets the number done.
    ///
    /// - Throws: `StoreError` and `PostgresError`: the rest was not tried.
    package func run(
        _ query: QuarantineQuery,
        total: Int,
        over connection: PostgresConnection,
        by author: AuditAuthor,
        isDryRun: Bool,
        progress: (Int) -> Void = { _ in }
    ) async throws -> Report {
        let subject = "quarantine" + query.description
        if !isDryRun {
            try await AuditLog.record(over: connection, .retryStanzas, subject, count: total, by: author)
        }
        let store = MessageStore(settings, senders: senders.map(\.senderID))
        let report: Report
        do {
            report = try await run(query, store, over: connection, isDryRun: isDryRun, progress)
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
        isDryRun: Bool,
        _ progress: (Int) -> Void
    ) async throws -> Report {
        var (query, report, done) = (query, Report(), 0)
        var servers: [Int: ServerLimits?] = [:]
        (query.order, query.hasStanzas, query.limit, query.byteLimit) = (.oldestFirst, true, 500, 4 << 20)
        while true {
            let page = try await query.next(connection)
            for row in page.rows {
                try Task.checkCancellation()
                done += 1
                progress(done)
                do {
                    let index = try senderIndex(of: row)
                    let server = try await limits(for: row, index, &servers)
                    let messages = try judge(row, of: senders[index], server, at: try await connection.databaseTime())
                    let outcomes = try await inTime { () async throws(StoreError) in
                        try await isDryRun ? store.compare(messages) : store.load(messages, isDelivered: true)
                    }
                    report.add(outcomes)
                    if !isDryRun { try await dismiss(row, over: connection) }
                } catch let refusal as Refusal {
                    report.refuse(row.id, refusal.why)
                }
            }
            guard page.isFull else { return report }
        }
    }

    /// What says something about one stanza does not stop the others.
    private func inTime(_ body: () async throws(StoreError) -> [StoreOutcome]) async throws -> [StoreOutcome] {
        do throws(StoreError) {
            return try await body()
        } catch {
            switch error.kind {
            case .refused: throw Refusal(why: "\(QuarantineReason.databaseRefused.rawValue): \(error.message)")
            case .timedOut: throw Refusal(why: Self.tooLate)
            case .unavailable, .unregistered, .misdated: throw error
            }
        }
    }

    /// The limits of a stanza's server, which is asked once, where they made it what it is.
    private func limits(
        for row: QuarantineRow,
        _ sender: Int,
        _ known: inout [Int: ServerLimits?]
    ) async throws -> ServerLimits {
        guard row.detail == UpstreamCodec.ackTooLarge.description else { return ServerLimits() }
        if !known.keys.contains(sender) { known[sender] = .some(await findLimits(sender)) }
        guard let limits = known[sender] ?? nil else {
            throw Refusal(why: "its server could not be asked how long an ack it takes")
        }
        return limits
    }

    private func senderIndex(of row: QuarantineRow) throws -> Int {
        guard let index = senders.firstIndex(where: { $0.senderID == row.senderID }) else {
            throw Refusal(why: "its sender is not in the configuration")
        }
        return index
    }

    private func dismiss(_ row: QuarantineRow, over connection: PostgresConnection) async throws {
        var one = QuarantineQuery()
        one.id = row.id
        _ = try await connection.result(of: QuarantineStatements.dismiss(one.condition, limit: 1))
    }

    /// The messages of a stanza as a stream of its sender would have them.
    private func judge(
        _ row: QuarantineRow,
        of sender: StreamSettings,
        _ server: ServerLimits,
        at now: Timestamp
    ) throws -> [IncomingMessage] {
        var codec = UpstreamCodec(sender)
        if let own = JID(sender.address) { codec.bound(to: own, server) }
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
