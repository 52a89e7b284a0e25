import Foundation
import Testing
import Vocabulary

@testable import Telemetry

struct MetricsTests {
    private func made() -> Metrics {
        Metrics(
            senders: ["1234567890", "two"],
            categories: ["com.example.orders", "com.example.\"odd\"\\\n", "*"],
            handlers: ["orders", "billing"],
            version: "1.2.3"
        )
    }

    private func scraped(_ metrics: Metrics) throws -> Exposition {
        try Exposition(String(decoding: metrics.render(), as: UTF8.self))
    }

    @Test("every metric has a family of its kind, with its labels and a help text")
    func families() throws {
        let metrics = made()
        // Without one that was seen there is no series, and no family.
        #expect(try scraped(metrics).families[MetricName.certificateEnd.rawValue] == nil)
        metrics.certificates.note(.server, of: "two", remaining: 100, now: Timestamp(microseconds: 5_000_000))
        let exposition = try scraped(metrics)
        #expect(exposition.families[MetricName.certificateEnd.rawValue]?.samples.map(\.value) == [105])
        #expect(Set(exposition.families.keys) == Set(MetricName.allCases.map(\.rawValue)))
        for name in MetricName.allCases {
            let family = try #require(exposition.families[name.rawValue])
            #expect(family.type == name.kind.rawValue)
            #expect(!family.help.isEmpty)
            #expect(!family.samples.isEmpty)
            for sample in family.samples {
                #expect(Set(sample.labels.keys).subtracting(["le"]) == Set(name.labels))
            }
        }
    }

    @Test("metrics have their documented names and closed label sets")
    func documentedNames() throws {
        let exposition = try scraped(made())
        for kind in ["upstream", "receipt", "malformed", "ack", "nack", "control", "error", "untrusted", "other"] {
            #expect(exposition.value("upstream_stanzas_received_total", ["kind": kind]) == 0)
        }
        for outcome in ["stored", "duplicate", "conflict", "quarantined"] {
            for category in ["other", "com.example.orders", "com.example.\"odd\"\\\n"] {
                let labels = ["category": category, "outcome": outcome]
                #expect(exposition.value("upstream_messages_total", labels) == 0)
            }
        }
        for state in ["connecting", "bound", "draining"] {
            #expect(exposition.value("upstream_xmpp_connections", ["sender": "two", "state": state]) == 0)
        }
        #expect(exposition.value("upstream_acks_total", ["outcome": "connection_gone"]) == 0)
        #expect(exposition.value("upstream_acks_total", ["outcome": "sent"]) == 0)
        #expect(exposition.value("upstream_build_info", ["version": "1.2.3"]) == 1)
        #expect(exposition.families["upstream_messages_total"]?.samples.count == 12)
    }

    @Test("without handlers their families are left out")
    func withoutHandlers() throws {
        let metrics = Metrics(senders: ["s"], categories: [], handlers: [], version: "1")
        #expect(try scraped(metrics).families.keys.allSatisfy { !$0.contains("deliver") && !$0.contains("dead") })
    }

    @Test("what is counted is what is shown")
    func values() throws {
        let metrics = made()
        metrics.connections(sender: 1, state: .bound).add(3)
        metrics.connections(sender: 1, state: .bound).add(-1)
        metrics.stanzas[.control].increment()
        metrics.acks[.sent].increment(by: 7)
        metrics.acks[.sent].increment(by: -3)
        metrics.databaseErrors[.resources].increment()
        metrics.reconnects[.draining].increment()
        metrics.handler(1).deliveries[.retry].increment()
        metrics.handler(1).oldestDeliveryAge.set(1.5)
        metrics.handler(1).deadLetters.set(4)
        metrics.handler(0).duration.observe(.milliseconds(3))
        let exposition = try scraped(metrics)
        #expect(exposition.value("upstream_xmpp_connections", ["sender": "two", "state": "bound"]) == 2)
        #expect(exposition.value("upstream_stanzas_received_total", ["kind": "control"]) == 1)
        #expect(exposition.value("upstream_acks_total", ["outcome": "sent"]) == 7)
        #expect(exposition.value("upstream_database_errors_total", ["class": "resources"]) == 1)
        #expect(exposition.value("upstream_reconnects_total", ["reason": "draining"]) == 1)
        #expect(exposition.value("upstream_deliveries_total", ["handler": "billing", "outcome": "retry"]) == 1)
        #expect(exposition.value("upstream_oldest_delivery_age_seconds", ["handler": "billing"]) == 1.5)
        #expect(exposition.value("upstream_dead_letters", ["handler": "billing"]) == 4)
        let bucket = ["handler": "orders", "le": "0.005"]
        #expect(exposition.value("upstream_delivery_duration_seconds_bucket", bucket) == 1)
    }

    @Test("what is not known yet is NaN, which fulfils no alert's condition")
    func unknown() throws {
        let metrics = made()
        for name in [
            "upstream_database_transaction_age", "upstream_partitions_ahead",
            "upstream_retention_last_run_timestamp_seconds", "upstream_retention_held_partitions",
            "upstream_clock_ahead_seconds", "upstream_database_slot_wal_bytes", "upstream_database_slot_wal_ratio",
        ] {
            #expect(try scraped(metrics).value(name)?.isNaN == true)
        }
        metrics.partitionsAhead.set(7)
        metrics.transactionAge.set(200_000_000)
        metrics.slotBytes.set(1_073_741_824)
        metrics.slotShare.set(0.25)
        metrics.retentionLastRun.set(1_795_236_016.25)
        metrics.retentionHeld.set(2)
        metrics.replaysRunning.add(1)
        metrics.clockAhead.set(-3.5)
        let exposition = try scraped(metrics)
        #expect(exposition.value("upstream_clock_ahead_seconds") == -3.5)
        #expect(exposition.value("upstream_partitions_ahead") == 7)
        #expect(exposition.value("upstream_database_transaction_age") == 200_000_000)
        #expect(exposition.value("upstream_database_slot_wal_bytes") == 1_073_741_824)
        #expect(exposition.value("upstream_database_slot_wal_ratio") == 0.25)
        #expect(exposition.value("upstream_retention_last_run_timestamp_seconds") == 1_795_236_016.25)
        #expect(exposition.value("upstream_retention_held_partitions") == 2)
        #expect(exposition.value("upstream_replays_running") == 1)
    }

    @Test("a handler's queue, pause and circuit breaker are shown, the breaker as one of its states")
    func handlerState() throws {
        let metrics = made()
        metrics.handler(0).waiting.set(12)
        metrics.handler(0).paused.set(1)
        metrics.handler(1).circuit.set(CircuitState.halfOpen.index)
        let exposition = try scraped(metrics)
        #expect(exposition.value("upstream_deliveries_waiting", ["handler": "orders"]) == 12)
        #expect(exposition.value("upstream_handler_paused", ["handler": "orders"]) == 1)
        #expect(exposition.value("upstream_handler_paused", ["handler": "billing"]) == 0)
        for (handler, state) in [("orders", "closed"), ("billing", "half_open")] {
            for other in ["closed", "open", "half_open"] {
                let value = exposition.value("upstream_handler_circuit", ["handler": handler, "state": other])
                #expect(value == (state == other ? 1 : 0))
            }
        }
    }

    @Test("a value on a bound belongs to its bucket; above the last there is +Inf")
    func buckets() {
        let histogram = Histogram(bounds: [1, 2, 5])
        histogram.observe(1)
        histogram.observe(1.5, count: 3)
        let late = [5, 5.1, 100]
        histogram.observe { late.forEach($0) }
        #expect(histogram.snapshot() == Histogram.Snapshot(counts: [1, 3, 1, 2], sum: 115.6))
        #expect(histogram.snapshot().bound(below: 0.5, in: histogram.bounds) == 2)
        #expect(histogram.snapshot().bound(below: 0.99, in: histogram.bounds) == .infinity)
        #expect(Histogram(bounds: [1]).snapshot().bound(below: 0.5, in: [1]) == nil)
    }

    @Test(
        "numbers are written as the format wants them",
        arguments: [
            (0.0, "0"), (1.0, "1"), (0.25, "0.25"), (1e300, "1e+300"), (.infinity, "+Inf"), (-.infinity, "-Inf"),
            (.nan, "NaN"),
        ]
    )
    func numbers(value: Double, text: String) {
        #expect(ExpositionWriter.number(value) == text)
    }
}

struct CategoryLabelsTests {
    @Test(
        "only configured names have a label of their own",
        arguments: [
            ("com.example.a", 1), ("com.example.b", 2), ("ÿ", 3), ("com.example.c", 0), ("", 0), ("com.example", 0),
            ("*", 0),
            ("other", 0), ("Com.example.a", 0),
        ]
    )
    func lookUp(category: String, index: Int) {
        let labels = CategoryLabels(["com.example.a", "*", "com.example.b", "com.example.a", "ÿ", "other"])
        #expect(Array(category.utf8).withUnsafeBufferPointer { labels.index(of: $0) } == index)
        #expect(labels.names == ["other", "com.example.a", "com.example.b", "ÿ"])
    }

    @Test(
        "a category without a label of its own is counted under the longest prefix",
        arguments: [
            ("com.example.a", 2), ("com.example.b", 1), ("com.example.deep.a", 3), ("com.example.deep.", 3),
            ("com.example.", 1), ("com.example", 0), ("com.examples.a", 0), ("com.example.*", 1),
        ]
    )
    func prefix(category: String, index: Int) {
        let labels = CategoryLabels(["com.example.*", "com.example.a", "com.example.deep.*"])
        #expect(Array(category.utf8).withUnsafeBufferPointer { labels.index(of: $0) } == index)
    }

    @Test("bytes are compared, not characters: the two forms of é are two categories")
    func bytes() {
        let labels = CategoryLabels(["\u{E9}"])
        #expect(Array("\u{E9}".utf8).withUnsafeBufferPointer { labels.index(of: $0) } == 1)
        #expect(Array("e\u{301}".utf8).withUnsafeBufferPointer { labels.index(of: $0) } == 0)
    }
}

struct MessageAccountsTests {
    @Test("received = settled + in flight in every scrape, whoever is at work meanwhile (G8)")
    func balance() async throws {
        let metrics = Metrics(senders: ["s"], categories: ["a", "b"], handlers: [], version: "1")
        let rounds = 3000
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    for round in 0..<rounds {
                        metrics.messages.received(upstream: 3, receipt: 1, malformed: 1)
                        metrics.messages.settled(count: 5) { index in
                            ((index + worker) % 3, StoreOutcome.allCases[(index + round) % 4])
                        }
                        if round % 50 == 0 { await Task.yield() }
                    }
                }
            }
            group.addTask {
                var seen = 0.0
                while seen < Double(4 * rounds * 5) {
                    let exposition = try Exposition(String(decoding: metrics.render(), as: UTF8.self))
                    let received = ["upstream", "receipt", "malformed"].reduce(0.0) {
                        $0 + (exposition.value("upstream_stanzas_received_total", ["kind": $1]) ?? .nan)
                    }
                    let flying = try #require(exposition.value("upstream_messages_in_flight"))
                    try #require(received == exposition.sum("upstream_messages_total") + flying)
                    seen = exposition.sum("upstream_messages_total")
                    await Task.yield()
                }
            }
            try await group.waitForAll()
        }
        let books = metrics.messages.snapshot()
        #expect(books.inFlight == 0)
        #expect(books.received(.upstream) == UInt64(4 * rounds * 3))
        #expect(StoreOutcome.allCases.reduce(0) { $0 + books.settled($1) } == UInt64(4 * rounds * 5))
    }
}
