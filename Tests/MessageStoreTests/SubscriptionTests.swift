import Dispatcher
import Ingest
import MessageStore
import Querying
import Testing
import UpstreamKit
import Vocabulary

extension HandlerRegistration {
    /// A handler with conditions on `data`.
    fileprivate static func filtered(
        _ name: String,
        _ categories: CategorySet = .all,
        _ clauses: String...,
        ordering: HandlerOrdering = .none
    ) throws -> HandlerRegistration {
        var registration = make(name, categories, ordering: ordering)
        registration.filter = try HandlerFilter(clauses.map { try HandlerClause(parsing: $0) }).form
        return registration
    }
}

@Suite("which message makes a delivery for which handler", .timeLimit(.minutes(10)))
struct SubscriptionTests {
    private static let handlers: [HandlerRegistration] = [
        .make("exact", ["com.example.a"]), .make("prefix", ["com.example.*"]), .make("all"),
        .make("several", ["com.example.*", "com.example.a", "com.example.a.*"]),
    ]

    /// By number: the category and data of a message, and the handlers that get it.
    private static let messages: [(category: String, data: String?, form: IncomingMessage.DataForm, handlers: String)] =
        [
            ("com.example.a", #"{"total":100}"#, .json, "all,device,exact,large,largePrefix,not,prefix,several"),
            ("com.example.a", #"{"total":99.99}"#, .json, "all,exact,not,prefix,several"),
            ("com.example.b", #"{"total":1e2}"#, .json, "all,device,large,largePrefix,not,prefix,several"),
            ("com.example.a.b", #"{"total":"100"}"#, .json, "all,not,prefix,several"),
            ("com.example", #"{"total":1000,"kind":"x"}"#, .json, "all,device,large"),
            ("com.examples.a", nil, .absent, "all,not"),
            ("*", "null", .json, "all,not"),
            ("com.example.*", #"{"total":\u0000}"#, .raw, "all,not,prefix,several"),
        ]

    private static func registrations() throws -> [HandlerRegistration] {
        handlers + [
            try .filtered("large", .all, "data.total>=100"),
            try .filtered("largePrefix", ["com.example.*"], "data.total>=100", "data.kind!=x"),
            try .filtered("not", .all, "data.kind!=x"),
            try .filtered("never", .all, "data.total>=100", "data.total<100"),
            try .filtered("device", ["com.example", "com.example.*"], "data.total>=100", ordering: .device),
        ]
    }

    private func batch(from first: UInt64) -> [IncomingMessage] {
        let start = IncomingMessage.now()
        return Self.messages.enumerated().map { index, message in
            IncomingMessage.make(
                first + UInt64(index),
                data: message.data,
                form: message.form,
                receivedAt: start + Int64(index),
                category: message.category
            )
        }
    }

    /// The handlers of each message, in rows or blocks.
    private func found(_ batch: [IncomingMessage], _ fixture: DeliveriesFixture) async throws -> [String] {
        var found: [String] = []
        for message in batch {
            found.append(
                try await fixture.store.text(
                    """
                    SELECT string_agg(handler, ',' ORDER BY handler COLLATE "C") FROM (
                        SELECT handler FROM upstream.deliveries WHERE message_key = '\(message.messageKey)'
                        UNION ALL SELECT handler FROM upstream.delivery_blocks WHERE '\(message.messageKey)' = ANY (keys)
                    ) AS found
                    """
                ) ?? ""
            )
        }
        return found
    }

    enum Path: CaseIterable, Sendable {
        case rows, leased, packed, mixed, retry, alone, imported
    }

    @Test("on every way to a row: exact names, prefixes, stars and filters, once each", arguments: Path.allCases)
    func written(path: Path) async throws {
        let handlers = try Self.registrations()
        let fixture = try await DeliveriesFixture(handlers)
        let names = handlers.map(\.name)
        var offer = LeaseOffer(handlers: names, local: names, owner: "a", token: fixture.token, duration: .seconds(60))
        let batch = batch(from: 1)
        let writer = fixture.writer
        switch path {
        case .rows: _ = try await writer.commit(batch)
        case .leased: _ = try await writer.commit(batch, leasing: offer, isRetry: false)
        case .packed:
            (offer.packed, offer.block) = (names, 1)
            _ = try await writer.commit(batch, leasing: offer, isRetry: false)
        case .mixed:
            (offer.packed, offer.block) = (names, 1)
            _ = try await writer.commit([batch[0], batch[5]])
            _ = try await writer.commit(batch.map { $0.copy() }, leasing: offer, isRetry: false)
        case .retry: _ = try await writer.commit(batch, leasing: offer, isRetry: true)
        case .alone: for message in batch { _ = try await writer.commit([message]) }
        case .imported: _ = try await writer.load(batch, isDelivered: true)
        }
        #expect(try await found(batch, fixture) == Self.messages.map(\.handlers))
        // What a filter lets pass is in nobody's hands: its worker doesn't know of it.
        let held = "lease_owner IS NOT NULL AND handler IN ('large', 'largePrefix', 'not', 'device')"
        #expect(try await fixture.count(held) == 0)
        #expect(
            try await fixture.store.integer("SELECT count(*) FROM upstream.delivery_blocks WHERE handler = 'large'")
                == 0
        )
        if path == .leased { #expect(try await fixture.count("lease_owner = 'a' AND handler = 'prefix'") == 5) }
        #expect(try await fixture.count("handler = 'device' AND device_key IS NULL") == 0)
        #expect(try await fixture.claim(.make("large")).count == 3)
    }

    @Test("data that the filter can't judge, and an expression that has become invalid, hold up no ack")
    func unjudged() async throws {
        let fixture = try await DeliveriesFixture([.make("all"), try .filtered("odd", .all, "data.total~x")])
        // As on a server whose expressions differ from the one where it registered.
        try await fixture.store.script(
            #"UPDATE upstream.subscriptions SET filters = jsonb_set(filters, '{0,0,is}', '"("') WHERE handler = 'odd'"#
        )
        let batch = [IncomingMessage.make(1, data: #"{"total":"x"}"#), .make(2, data: #"{"total":"\u0000"}"#)]
        #expect(try await fixture.writer.commit(batch) == [.stored, .stored])
        // The worker says that jsonb would take it, and is wrong.
        try await fixture.store.script(
            #"UPDATE upstream.subscriptions SET filters = jsonb_set(filters, '{0,0,is}', '"x"') WHERE handler = 'odd'"#
        )
        let more = [IncomingMessage.make(3, data: #"{"total":"x"}"#), .make(4, data: #"{"total":"\u0000 x"}"#)]
        #expect(try await fixture.writer.commit(more) == [.stored, .stored])
        #expect(try await fixture.count("handler = 'all'") == 4)
        #expect(try await fixture.count("handler = 'odd'") == 1)
    }

    @Test("a regular expression that is none is refused when its worker registers, and nothing is changed")
    func invalid() async throws {
        let fixture = try await DeliveriesFixture([.make("orders")])
        let broken = try HandlerRegistration.filtered("orders", ["x"], "data.a~(")
        let error = await #expect(throws: StoreError.self) { try await fixture.another("b").register([broken]) }
        #expect(error?.sqlState == "2201B")
        #expect(try await fixture.store.text("SELECT category FROM upstream.subscriptions") == "*")
    }

    @Test("a delivery that a trigger drops is missed, where a filter wants it, and not where it does not")
    func dropped() async throws {
        let fixture = try await DeliveriesFixture([try .filtered("large", ["com.example.*"], "data.total>=100")])
        try await fixture.store.script(
            """
            CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            CREATE TRIGGER site_filter BEFORE INSERT ON upstream.deliveries
            FOR EACH ROW EXECUTE FUNCTION public.drop_row()
            """
        )
        let small = IncomingMessage.make(1, data: #"{"total":1}"#)
        #expect(try await fixture.writer.commit([small]) == [.stored])
        let error = await #expect(throws: StoreError.self) {
            try await fixture.writer.commit([.make(2, data: #"{"total":100}"#), .make(3, data: #"{"total":1}"#)])
        }
        #expect(error?.sqlState == "UW002")
        #expect(try await fixture.store.count("messages") == 1)
    }

    @Test("a released conflict goes to those who want its content")
    func conflict() async throws {
        let fixture = try await DeliveriesFixture([
            .make("prefix", ["com.example.*"]), .make("other", ["com.example.a.*"]),
            try .filtered("small", ["com.example.*"], "data.total<100"),
            try .filtered("large", .all, "data.total>=100"),
        ])
        let first = IncomingMessage.make(1, data: #"{"total":1}"#)
        var other = IncomingMessage.make(1, data: #"{"total":100}"#, fingerprint: 2)
        other.receivedAt = first.receivedAt + 5
        #expect(try await fixture.writer.commit([first]) == [.stored])
        #expect(try await fixture.writer.commit([other]) == [.conflict])
        let released = try await ConflictRelease.release(
            MessageKey(first.messageKey),
            fingerprint: Digest128(high: 0, low: 2),
            by: .tester,
            fixture.store.admin
        )
        #expect(released == .released(["large", "prefix"]))
    }

    // MARK: Two configurations

    private let filters = """
        SELECT string_agg(coalesce(jsonb_path_query_array(filters, '$[*][*].text')::text, '-'), ' ' ORDER BY category)
        FROM upstream.subscriptions WHERE handler = 'orders'
        """

    @Test("while workers have different filters, what any of them wants is delivered")
    func rollingUpgrade() async throws {
        let fixture = try await DeliveriesFixture([try .filtered("orders", .all, "data.total>=100")])
        let data = [#"{"total":100}"#, #"{"total":1,"kind":"x"}"#, #"{"total":2}"#]
        func receive(_ first: UInt64) async throws -> Int64? {
            try await fixture.store.script("DELETE FROM upstream.deliveries")
            _ = try await fixture.writer.commit(data.enumerated().map { .make(first + UInt64($0), data: $1) })
            return try await fixture.count()
        }
        #expect(try await receive(1) == 1)
        let second = fixture.another("b")
        _ = try await second.register([try .filtered("orders", .all, "data.kind=x")])
        #expect(try await fixture.store.text(filters) == #"["data.kind=x", "data.total>=100"]"#)
        #expect(try await receive(11) == 2)
        // An older configuration, without a filter, that starts once more.
        let third = fixture.another("c")
        _ = try await third.register([.make("orders", ["com.example.orders"])])
        #expect(try await fixture.store.text(filters) == "- -")
        #expect(try await receive(21) == 3)
        await third.close()
        await second.close()
        #expect(try await fixture.store.text(filters) == #"["data.total>=100"]"#)
        #expect(try await receive(31) == 1)
        // The last one's stays, as its categories do.
        await fixture.deliveries.close()
        #expect(try await fixture.store.text(filters) == #"["data.total>=100"]"#)
        _ = try await fixture.another("d").register([.make("orders")])
        #expect(try await fixture.store.text(filters) == "-")
    }

    @Test("a worker without a filter hands over at once only where no other has one for the handler")
    func handOver() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ["com.example.*"])])
        _ = try await fixture.another("b").register([try .filtered("orders", .all, "data.total>=100")])
        var offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders"],
            owner: "a",
            token: fixture.token,
            duration: .seconds(60)
        )
        (offer.packed, offer.block) = (["orders"], 1)
        // Of the other's category, which only that one asks for.
        let batch: [IncomingMessage] = [
            .make(1), .make(2, category: "org.example"), .make(3, category: "com.example.b"),
        ]
        _ = try await fixture.writer.commit(batch, leasing: offer, isRetry: false)
        let block =
            "SELECT string_agg(right(key::text, 1), '' ORDER BY key) FROM upstream.delivery_blocks, unnest(keys) AS k (key)"
        #expect(try await fixture.store.text(block) == "13")
        #expect(try await fixture.count("lease_owner IS NULL") == 1)
    }

    @Test("`handlers list` shows the conditions of the handler and of each worker")
    func listed() async throws {
        let fixture = try await DeliveriesFixture([
            try .filtered("orders", ["com.example.*"], "data.total>=100", "data.x exists"), .make("plain"),
        ])
        func listed() async throws -> [HandlerState] { try await HandlerStates(fixture.store.admin).list() }
        let one = try await listed()
        #expect(one.map(\.clauses) == [["data.total>=100", "data.x exists"], []])
        #expect(one[0].workers.map(\.clauses) == [["data.total>=100", "data.x exists"]])
        _ = try await fixture.another("b").register([try .filtered("orders", .all, "data.y=1")])
        let both = try await listed()[0]
        #expect(Set(both.clauses) == ["data.total>=100 and data.x exists", "data.y=1"])
        #expect(Set(both.workers.map(\.clauses)) == [["data.total>=100", "data.x exists"], ["data.y=1"]])
    }
}
