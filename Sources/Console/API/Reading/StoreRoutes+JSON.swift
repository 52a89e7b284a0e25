import MessageStore
import Resources
import Vocabulary

// The fields of the state of the whole: nothing of devices and handlers.

extension Overview: ShownResource {
    static let schema = "Overview"
    static let about: StaticString? = "Rates are per second, over the workers that are alive."
    static let fields: [Field<Overview>] = [
        Field("at") { $0.store.takenAt },
        Field("newest_message_at") { $0.store.newest },
        Field("in_flight") { $0.inFlight },
        Field("rates") { Nested(Rates(overview: $0)) },
        Field("ack_latency_seconds") { Nested(Latency(overview: $0)) },
        Field("streams") { Rows($0.streams) },
        Field("workers") { Rows($0.workers) },
        Field("handlers") { Rows($0.handlers) },
        Field("sizes") { Nested(Sizes(store: $0.store)) },
        Field("categories") { Rows($0.store.categories) },
    ]

    struct Rates: ShownResource {
        var overview: Overview

        static let schema = "Rates"
        static let fields: [Field<Rates>] = [
            Field("received") { $0.overview.rate(\.received) }, Field("stored") { $0.overview.rate(\.stored) },
            Field("duplicates") { $0.overview.rate(\.duplicates) }, Field("acked") { $0.overview.rate(\.acked) },
            Field("handled") { $0.overview.rate(\.handled) },
        ]
    }

    struct Latency: ShownResource {
        var overview: Overview

        static let schema = "Latency"
        static let fields: [Field<Latency>] = [
            Field("p50") { $0.overview.ackLatency.half }, Field("p99") { $0.overview.ackLatency.most },
        ]
    }

    struct Sizes: ShownResource {
        var store: StoreStatistics

        static let schema = "Sizes"
        static let fields: [Field<Sizes>] = [
            Field("database_bytes") { $0.store.databaseBytes }, Field("tables") { Rows($0.store.tables) },
            Field("days") { $0.store.days.count }, Field("days_ahead") { $0.store.daysAhead },
        ]
    }
}

extension StoreStatistics.Table: ShownResource {
    static let schema = "Table"
    static let fields: [Field<StoreStatistics.Table>] = [
        Field("name") { $0.name }, Field("rows_estimate") { $0.rows }, Field("bytes") { $0.bytes },
    ]
}

extension StoreStatistics.Category: ShownResource {
    static let schema = "Estimate"
    static let fields: [Field<StoreStatistics.Category>] = [
        Field("name") { $0.name }, Field("rows_estimate", isNullable: true) { $0.rows },
    ]
}

extension RetentionView: ShownResource {
    static let schema = "Partitions"
    static let fields: [Field<RetentionView>] = [
        Field("items") { Rows($0.plan.partitions) },
        Field("next") { _ in String?.none },
        Field("missing") { $0.plan.missing.map(\.start.date) },
        Field("policy") { $0.policy.map(Nested.init) },
        Field("expired") { Nested(Expired(plan: $0.plan)) },
        Field("last_run_at") { $0.lastRun },
    ]

    struct Expired: ShownResource {
        var plan: RetentionPlan

        static let schema = "Expired"
        static let fields: [Field<Expired>] = [
            Field("conflicts") { $0.plan.conflicts }, Field("quarantine") { $0.plan.quarantine },
            Field("dead_letters") { $0.plan.deadLetters },
            Field("ledger_estimate") { $0.plan.ledgerExpired }, Field("counted_to") { _ in Overview.countLimit },
        ]
    }
}

extension RetentionPolicyInForce: ShownResource {
    static let schema = "Policy"
    static let fields: [Field<RetentionPolicyInForce>] = [
        Field("messages_seconds") { $0.policy.messages.inSeconds },
        Field("dedupe_window_seconds") { $0.policy.dedupeWindow.inSeconds },
        Field("dead_letters_seconds") { $0.policy.deadLetters.inSeconds },
        Field("attempts_seconds") { $0.policy.attempts.inSeconds }, Field("set_by") { $0.setBy },
        Field("set_at") { $0.setAt },
    ]
}
