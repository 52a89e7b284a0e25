import Dispatcher
import Ingest
import UpstreamKit
import Vocabulary

/// A database to be compared: the model's or a real one.
protocol Site: Sendable {
    /// The database's time at the start, in microseconds since 1970-01-01 UTC.
    var start: Int64 { get }

    /// A writer of a worker; its clock, if it has one, is so far from the database's.
    func writer(clockAhead: Duration?) -> any MessageWriter
    func deliveries(_ worker: String) -> any DeliveryStore
    /// Ends a delivery store's registration in order.
    func close(_ store: any DeliveryStore) async

    /// Calls the SQL function of `orders` for a delivery, as a worker does.
    func call(_ worker: String, _ delivery: Delivery) async -> AttemptEnd

    /// Lets time pass for all rows.
    func pass(_ duration: Duration) async throws
    /// A table's rows as text, in their order, without what differs from run to run.
    func rows(_ table: Table) async throws -> [String]

    /// Brings trouble about, or ends it.
    func happen(_ trouble: Trouble) async throws
    /// Stores a message in a transaction that stays open while the body runs, and ends as is said.
    func holding(
        _ message: IncomingMessage,
        _ end: HoldEnd,
        _ body: @escaping @Sendable () async throws -> [String]
    ) async throws -> [String]
}

/// When and how a transaction ends that others wait for.
enum HoldEnd {
    /// It commits once somebody waits.
    case commit
    /// It is rolled back once somebody waits.
    case rollback
    /// It outlasts those who wait.
    case never
}

enum Table: String, CaseIterable {
    case messages
    case conflicts
    case quarantine
    case handlers
    case registrations
    case subscriptions
    case deliveries
    case blocks
    case dead_letters
    /// What the SQL function has done.
    case effects
}

enum Trouble: Hashable {
    /// New messages of `com.example.refused` are refused with this SQLSTATE.
    case rowsRefused(String)
    /// Each COMMIT of a statement that stores messages fails with this SQLSTATE.
    case commitsFail(String)
    case commitsSucceed
    case readOnly
    case writable
    /// The sessions of the worker `writer` end.
    case sessionsEnd
    /// The next answer to the worker `writer` is lost, after its transaction has committed.
    case answerLost
    /// Statements that store messages take longer than the worker allows.
    case tooSlow
    case fastAgain
    /// The database is one from before the workers registered.
    case registrationsLost
    /// An operator pauses, or resumes, the handler `orders`.
    case paused
    case resumed
}

extension Site {
    func writer() -> any MessageWriter { writer(clockAhead: nil) }

    /// A batch's outcomes, or how it failed.
    func commit(
        _ batch: [IncomingMessage],
        _ offer: LeaseOffer = .none,
        isRetry: Bool = false,
        by writer: any MessageWriter
    ) async -> String {
        do throws(StoreError) {
            let outcomes = try await writer.commit(batch, leasing: offer, isRetry: isRetry)
            return outcomes.map(\.rawValue).joined(separator: " ")
        } catch {
            return error.text
        }
    }

    /// All tables that hold something.
    func everything() async throws -> [String] {
        var text: [String] = []
        for table in Table.allCases {
            for row in try await rows(table) { text.append("\(table): \(row)") }
        }
        return text
    }

    /// A message that came so many microseconds after the start.
    func message(
        _ number: UInt64,
        at time: Int64? = nil,
        fingerprint: UInt64 = 1,
        data: String = "{}",
        category: String = "com.example.orders",
        device: UInt64 = 7,
        quarantine: QuarantineReason? = nil
    ) -> IncomingMessage {
        var message = IncomingMessage.make(number, data: data, category: category, quarantine: quarantine)
        message.receivedAt = start + (time ?? Int64(number))
        message.fingerprint = Digest128(high: 0, low: fingerprint)
        message.deviceKey = Digest128(high: 0, low: device)
        return message
    }
}

extension StoreError {
    /// The failure, without what differs between two ways to the same end.
    var text: String {
        switch failureClass {
        case .connection where sqlState != "08007", .intervention, .closed: "\(kind) session lost"
        default: "\(kind) \(sqlState ?? "-") \(failureClass)"
        }
    }
}

extension Digest128 {
    static func number(_ number: UInt64) -> Digest128 { Digest128(high: number, low: number) }
}

extension IncomingMessage {
    /// A copy as the codec makes it: one block of bytes and spans into it.
    fileprivate static func make(
        _ number: UInt64,
        data: String,
        category: String,
        quarantine: QuarantineReason?
    ) -> IncomingMessage {
        var bytes: [UInt8] = []
        func add(_ text: String) -> ByteSpan {
            let start = bytes.count
            bytes += text.utf8
            return ByteSpan(start: start, count: bytes.count - start)
        }
        let stanza = add("<message>\(number) \(data)</message>")
        let spans = (add("m-\(number)"), add("token"), add(category), add(data))
        var message = IncomingMessage(kind: .upstream, bytes: bytes, stanza: stanza)
        (message.messageID, message.registrationToken, message.category, message.data) = spans
        message.dataForm = .json
        message.messageKey = .number(number)
        message.isKeyedByDevice = true
        message.quarantine = quarantine
        return message
    }
}

extension HandlerRegistration {
    static func make(
        _ name: String,
        _ categories: CategorySet = .all,
        ordering: HandlerOrdering = .none,
        filter: String? = nil
    ) -> HandlerRegistration {
        var registration = HandlerRegistration(name, categories: categories, handler: ClosureHandler { _, _ in .done })
        registration.filter = filter
        registration.ordering = ordering
        return registration
    }
}
