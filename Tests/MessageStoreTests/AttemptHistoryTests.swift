import Dispatcher
import Ingest
import Postgres
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@testable import MessageStore

/// A database whose deliveries are settled with their history, by a worker called `host:1`.
private struct HistoryStage {
    let fixture: DeliveriesFixture
    let deliveries: PostgresDeliveryStore
    let refusals = Refusals()
    let token: Int64

    /// The refusals that suspended the history.
    final class Refusals: Sendable {
        private let errors = Mutex<[StoreError]>([])
        var states: [String?] { errors.withLock { $0.map(\.sqlState) } }
        func add(_ error: StoreError) { errors.withLock { $0.append(error) } }
    }

    init(_ handlers: [HandlerRegistration] = [.make("orders")], isWanted: Bool = true) async throws {
        fixture = try await DeliveriesFixture([])
        let refusals = refusals
        deliveries = PostgresDeliveryStore(
            fixture.store.settings,
            worker: "host:1",
            recording: AttemptRecording(worker: "host:1", isWanted: isWanted) { refusals.add($0) }
        )
        token = try await deliveries.register(handlers)
    }

    /// Runs a dispatcher with history while the body runs.
    func dispatch(
        _ handlers: [HandlerRegistration],
        _ body: (DispatchService) async throws -> Void
    ) async throws {
        let service = fixture.dispatcher(handlers, owner: "host:1", over: deliveries) { $0.recordsAttempts = true }
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            try await body(service)
            try await fixture.store.waitUntil("SELECT upstream.waiting_deliveries('-infinity', 'infinity') = 0")
        }
    }

    /// Stores a block of the messages with these numbers, received so many microseconds apart.
    func block(_ numbers: ClosedRange<UInt64>, apart: Int64 = 1) async throws -> [IncomingMessage] {
        let start = IncomingMessage.now()
        let batch = numbers.map { IncomingMessage.make($0, receivedAt: start - Int64($0) * apart) }
        var offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders"],
            owner: "host:1",
            token: token,
            duration: .seconds(60)
        )
        offer.packed = ["orders"]
        offer.block = 1
        _ = try await fixture.writer.commit(batch, leasing: offer, isRetry: false)
        return batch
    }

    func settle(_ batch: ArraySlice<IncomingMessage>, count: Int, token: Int64? = nil) async throws -> Int {
        var settlement = BlockSettlement(
            number: 1,
            token: token ?? self.token,
            count: count,
            done: batch.map(\.messageKey)
        )
        settlement.attempts = batch.map { message in
            AttemptRecord(
                outcome: .done,
                started: .now - .seconds(2),
                took: .milliseconds(Int64(message.messageKey.low)),
                receivedAt: message.receivedAt
            )
        }
        return try await deliveries.settle([settlement], of: "orders")
    }

    /// The history, a line for each attempt.
    func lines(_ condition: String = "true") async throws -> [String] {
        try await fixture.store.texts(
            """
            SELECT concat_ws(' ', right(message_key::text, 2), handler, attempt, outcome, coalesce(error_group, '-'), worker)
            FROM upstream.attempts WHERE \(condition) ORDER BY right(message_key::text, 8), handler, attempt, started_at
            """
        )
    }

    func count(_ sql: String = "SELECT count(*) FROM upstream.attempts") async throws -> Int64? {
        try await fixture.store.integer(sql)
    }

    /// How many attempts the look-up by key finds for these messages, each by itself.
    func found(_ batch: [IncomingMessage]) async throws -> Int {
        var found = 0
        for message in batch {
            let key = message.messageKey
            found += Int(try await count("SELECT count(*) FROM upstream.attempts_of('\(key)')") ?? 0)
        }
        return found
    }
}

@Suite("the history of attempts") struct AttemptHistoryTests {
    @Test("a row for each attempt: success, retry and success, rejection, exhaustion", arguments: [4, 40])
    func outcomes(count: UInt64) async throws {
        var handler = HandlerRegistration.make("orders") { message, context in
            switch message.messageKey.digest.low {
            case 2 where context.attempt == 1: .retry(after: .milliseconds(1), reason: "not yet")
            case 3: .reject(reason: "never")
            case 4: .retry(after: .milliseconds(1), reason: "no")
            default: .done
            }
        }
        handler.retry.maxAttempts = 2
        let stage = try await HistoryStage([handler])
        try await stage.dispatch([handler]) { try await stage.fixture.receive(1...count, through: $0.intake) }
        let expected = [
            "01 orders 1 done - host:1",
            "02 orders 1 retry not yet host:1", "02 orders 2 done - host:1",
            "03 orders 1 rejected never host:1",
            "04 orders 1 retry no host:1", "04 orders 2 exhausted no host:1",
        ]
        #expect(Array(try await stage.lines().prefix(6)) == expected)
        #expect(try await stage.count() == Int64(count) + 2)
        #expect(
            try await stage.count("SELECT count(*) FROM upstream.attempts WHERE outcome = 'done'") == Int64(count) - 2
        )
        let odd = """
            SELECT count(*) FROM upstream.attempts
            WHERE duration < '0' OR duration > '1 minute' OR started_at > settled_at
                OR started_at < settled_at - interval '1 minute'
            """
        #expect(try await stage.count(odd) == 0)
        let second = IncomingMessage.make(2).messageKey
        #expect(try await stage.count("SELECT count(*) FROM upstream.attempts_of('\(second)')") == 2)
    }

    @Test("an ordered handler's history is the same, and its devices go on")
    func ordered() async throws {
        let handler = HandlerRegistration.make("orders", ordering: .device) { message, context in
            message.messageKey.digest.low == 2 && context.attempt == 1
                ? .retry(after: .milliseconds(1), reason: "not yet") : .done
        }
        let stage = try await HistoryStage([handler])
        try await stage.dispatch([handler]) { try await stage.fixture.receive(1...20, through: $0.intake) }
        #expect(try await stage.count() == 21)
        #expect(
            try await stage.lines("right(message_key::text, 2) = '02'")
                == ["02 orders 1 retry not yet host:1", "02 orders 2 done - host:1"]
        )
    }

    @Test("a block that is done is one row, and each of its messages is found by its key")
    func block() async throws {
        let stage = try await HistoryStage()
        let batch = try await stage.block(1...40)
        #expect(try await stage.settle(batch[...], count: 40) == 40)
        #expect(try await stage.count("SELECT count(*) FROM upstream.attempt_batches") == 1)
        #expect(
            try await stage.count("SELECT count(DISTINCT message_key) FROM upstream.attempts WHERE attempt = 1") == 40
        )
        #expect(
            try await stage.count(
                "SELECT count(*) FROM upstream.attempts WHERE abs(extract(epoch FROM settled_at - started_at) - 2) < 1"
            ) == 40
        )
        #expect(
            try await stage.fixture.store.text(
                "SELECT string_agg(DISTINCT round(extract(epoch FROM duration) * 1000)::text, ' ') FROM upstream.attempts WHERE right(message_key::text, 2) = '28'"
            ) == "40"
        )
        #expect(try await stage.found(batch) == 40)
        // The same settlement again, as after a lost reply.
        #expect(try await stage.settle(batch[...], count: 40) == 0)
        #expect(try await stage.count() == 40)
    }

    @Test("a block whose messages arrived over many seconds is as many rows, and each message is found")
    func wideBlock() async throws {
        let stage = try await HistoryStage()
        let batch = try await stage.block(1...40, apart: 250_000)
        #expect(try await stage.settle(batch[...], count: 40) == 40)
        #expect(try await stage.count("SELECT count(*) FROM upstream.attempt_batches") == 10)
        #expect(try await stage.count("SELECT count(DISTINCT message_key) FROM upstream.attempts") == 40)
        #expect(try await stage.found(batch) == 40)
    }

    @Test(
        "deliveries in rows: all, a part that is still ours, and over many seconds",
        arguments: [1, 250_000] as [Int64]
    )
    func rows(apart: Int64) async throws {
        let stage = try await HistoryStage()
        let start = IncomingMessage.now()
        let batch = (1...40 as ClosedRange<UInt64>).map {
            IncomingMessage.make($0, receivedAt: start - Int64($0) * apart)
        }
        _ = try await stage.fixture.writer.commit(batch)
        let claimed = try await stage.deliveries.claim(.make())
        #expect(claimed.count == 40)
        let settlements = claimed.shuffled().map { delivery in
            var settlement = delivery.settled(.done)
            let message = batch.first { $0.messageKey == delivery.messageKey }
            settlement.attempt = AttemptRecord(
                outcome: .done,
                started: .now,
                took: .milliseconds(Int64(delivery.number)),
                receivedAt: message?.receivedAt ?? 0
            )
            return settlement
        }
        #expect(try await stage.deliveries.settle(Array(settlements[..<20]), of: "orders") == 20)
        #expect(try await stage.count() == 20)
        // Another worker has one of the others by now.
        let lost = settlements[39].messageKey
        try await stage.fixture.store.script(
            "UPDATE upstream.deliveries SET lease_token = lease_token + 1 WHERE message_key = '\(lost)'"
        )
        #expect(try await stage.deliveries.settle(Array(settlements[20...]), of: "orders") == 19)
        #expect(try await stage.count() == 39)
        #expect(try await stage.found(batch) == 39)
        let own = "SELECT count(*) FROM upstream.attempts WHERE round(extract(epoch FROM duration) * 1000) = "
        #expect(try await stage.count(own + "('x' || right(message_key::text, 2))::bit(8)::int") == 39)
    }

    @Test("what is done of a block that is unpacked has its history, and the rest when it is settled")
    func unpacked() async throws {
        let stage = try await HistoryStage()
        let batch = try await stage.block(1...40)
        #expect(try await stage.settle(batch[..<30], count: 40) == 30)
        #expect(try await stage.count() == 30)
        #expect(try await stage.settle(batch[30...], count: 40) == 10)
        #expect(try await stage.count() == 40)
        #expect(try await stage.found(batch) == 40)
    }

    @Test("an attempt whose lease another holds leaves nothing")
    func lost() async throws {
        let stage = try await HistoryStage()
        let batch = try await stage.block(1...20)
        #expect(try await stage.settle(batch[...], count: 20, token: stage.token + 1) == 0)
        try await stage.fixture.store.script("UPDATE upstream.delivery_blocks SET lease_until = now() - interval '1 s'")
        let taken = try await stage.fixture.another().claim(.make(owner: "b"))
        #expect(taken.count == 20)
        #expect(try await stage.settle(batch[...], count: 20) == 0)
        #expect(try await stage.count() == 0)
    }

    @Test("forget keeps that a device's messages were handled, and nothing that a handler said about them")
    func forgotten() async throws {
        let handler = HandlerRegistration.make("orders") { message, _ in
            message.messageKey.digest.low < 5 ? .reject(reason: "cannot take QUOTED") : .done
        }
        let stage = try await HistoryStage([handler])
        try await stage.dispatch([handler]) { try await stage.fixture.receive(1...20, through: $0.intake) }
        try await stage.fixture.store.script(
            """
            UPDATE upstream.messages
            SET device_key = left(encode(sha256('token-SECRET'), 'hex'), 32)::uuid WHERE right(message_key::text, 2) <> '01'
            """
        )
        _ = try await Erasure(stage.fixture.store.admin, token: [UInt8]("token-SECRET".utf8)).run(by: .tester)
        #expect(
            try await stage.lines("outcome <> 'done'") == [
                "01 orders 1 rejected cannot take QUOTED host:1", "02 orders 1 rejected erased host:1",
                "03 orders 1 rejected erased host:1", "04 orders 1 rejected erased host:1",
            ]
        )
        #expect(try await stage.count() == 20)
    }

    @Test("without history nothing is written, and the policy of 0 makes no partition")
    func off() async throws {
        let handler = HandlerRegistration.make("orders")
        let stage = try await HistoryStage([handler], isWanted: false)
        try await stage.fixture.store.script("DROP TABLE upstream.attempt_batches CASCADE")
        let service = stage.fixture.dispatcher([handler], owner: "host:1", over: stage.deliveries)
        try await stage.fixture.run(service) {
            await service.waitUntilSubscribed()
            try await stage.fixture.receive(1...5, through: service.intake)
            try await stage.fixture.receive(6...40, through: service.intake)
            try await stage.fixture.store.waitUntil(
                "SELECT upstream.waiting_deliveries('-infinity', 'infinity') = 0"
            )
        }
        #expect(stage.refusals.states.isEmpty)
        let other = try await StoreFixture()
        try await other.script(
            """
            INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
            VALUES ('30 days', '35 days', '90 days', '0')
            """
        )
        #expect(try await other.integer("SELECT upstream.ensure_attempts(current_date + 20, current_date + 21)") == 0)
    }

    @Test("a settlement is written without history where that is refused, and the worker is told once")
    func refused() async throws {
        let handler = HandlerRegistration.make("orders") { message, _ in
            message.messageKey.digest.low == 3 ? .reject(reason: "never") : .done
        }
        let stage = try await HistoryStage([handler])
        try await stage.fixture.store.script("ALTER TABLE upstream.attempt_batches RENAME TO former")
        try await stage.dispatch([handler]) { service in
            try await stage.fixture.receive(1...5, through: service.intake)
            try await stage.fixture.receive(6...40, through: service.intake)
        }
        #expect(stage.refusals.states == ["42P01"])
        #expect(try await stage.fixture.store.integer("SELECT count(*) FROM upstream.dead_letters") == 1)
    }

    @Test("an attempt on a day without a partition waits for it, and moves there when it is made")
    func missingDay() async throws {
        let stage = try await HistoryStage()
        try await stage.fixture.store.script(
            """
            DO $$ DECLARE day name; BEGIN
                FOR day IN SELECT relname FROM upstream.attempt_partitions() WHERE since IS NOT NULL LOOP
                    EXECUTE format('DROP TABLE upstream.%I', day);
                END LOOP;
            END $$
            """
        )
        let batch = try await stage.block(1...20)
        #expect(try await stage.settle(batch[...], count: 20) == 20)
        #expect(try await stage.count("SELECT count(*) FROM upstream.attempt_batches_rest") == 1)
        #expect(stage.refusals.states.isEmpty)
        #expect(try await stage.found(batch) == 20)
        let made = try await stage.fixture.store.admin.run { connection throws(PostgresError) in
            try AttemptDays.ensure(connection, around: .today())
        }
        #expect(made == 9)
        #expect(try await stage.count("SELECT count(*) FROM upstream.attempt_batches_rest") == 0)
        #expect(try await stage.found(batch) == 20)
    }
}

extension StoreFixture {
    /// The values of a query's one column.
    func texts(_ sql: String) async throws -> [String] {
        try await admin.run { connection throws(PostgresError) in
            try connection.query(sql).map { row throws(PostgresError) in try row.next(String?.self) ?? "NULL" }
        }
    }
}
