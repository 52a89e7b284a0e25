import Dispatcher
import Ingest
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// Tables with handlers, and shorthands for what the tests do to them.
struct DeliveriesFixture {
    let store: StoreFixture
    let deliveries: PostgresDeliveryStore
    let writer: MessageStore
    /// The token of what was registered first.
    let token: Int64

    init(_ handlers: [HandlerRegistration] = [.make("orders")]) async throws {
        store = try await StoreFixture()
        deliveries = PostgresDeliveryStore(store.settings, worker: "a")
        writer = store.store()
        token = try await deliveries.register(handlers)
    }

    /// Another worker on the same tables, with its name on its sessions.
    func another(_ name: String = "a") -> PostgresDeliveryStore {
        var settings = store.settings
        settings.applicationName = name
        return PostgresDeliveryStore(settings, worker: name)
    }

    /// Stores messages with these numbers; a number is also the order of arrival.
    func receive(_ numbers: ClosedRange<UInt64>, category: String = "com.example.orders") async throws {
        let start = IncomingMessage.now()
        let batch = numbers.map {
            IncomingMessage.make($0, receivedAt: start + Int64($0), category: category)
        }
        _ = try await writer.commit(batch)
    }

    func claim(_ request: ClaimRequest = .make()) async throws -> [Delivery] { try await deliveries.claim(request) }

    func count(_ condition: String = "true") async throws -> Int64? {
        try await store.integer("SELECT count(*) FROM upstream.deliveries WHERE \(condition)")
    }

    /// How many rows and index entries of the table were read, once the named worker's sessions have ended.
    ///
    /// A session tells what it has read when it ends.
    func rowsRead(afterEndOf name: String) async throws -> Int64 {
        try await store.waitUntil(
            """
            SELECT count(*) = 0 FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = '\(name)' AND pid <> pg_backend_pid()
            """
        )
        return try await store.integer(
            """
            SELECT (seq_tup_read + entries)::bigint FROM pg_stat_user_tables JOIN (
                SELECT relid, sum(idx_tup_read) AS entries FROM pg_stat_user_indexes GROUP BY relid
            ) AS indexes USING (relid) WHERE relname = 'deliveries'
            """
        ) ?? 0
    }

    /// Lets time pass for the table: leases end and retries come due.
    func pass(_ interval: String) async throws {
        try await store.script(
            """
            UPDATE upstream.deliveries SET
                next_attempt_at = next_attempt_at - interval '\(interval)',
                lease_until = lease_until - interval '\(interval)'
            """
        )
    }
}

extension HandlerRegistration {
    static func make(
        _ name: String,
        _ categories: CategorySet = .all,
        ordering: HandlerOrdering = .none,
        _ body: @escaping @Sendable (UpstreamMessage, HandlerContext) async throws -> HandlerOutcome = { _, _ in .done }
    ) -> HandlerRegistration {
        var registration = HandlerRegistration(name, categories: categories, handler: ClosureHandler(body))
        registration.ordering = ordering
        return registration
    }
}

extension ClaimRequest {
    static func make(
        _ handler: String = "orders",
        limit: Int = 100,
        owner: String = "a",
        suspects: Bool = false,
        ordered: Bool = false
    ) -> ClaimRequest {
        ClaimRequest(
            handler: handler,
            limit: limit,
            lease: .seconds(60),
            owner: owner,
            isForSuspects: suspects,
            isOrdered: ordered
        )
    }
}

extension Delivery {
    var reference: LeaseReference { LeaseReference(messageKey: messageKey, token: lease.token) }

    /// The number that ``IncomingMessage/make(_:data:form:id:token:fingerprint:receivedAt:quarantine:category:)`` was
    /// given.
    var number: UInt64 { messageKey.low }
}
