import MessageStore
import Resources
import Vocabulary

extension Overview {
    func write(to json: inout JSONWriter) {
        json.member("at", store.takenAt)
        json.member("newest_message_at", store.newest)
        json.member("in_flight", alive.reduce(0) { $0 + $1.inFlight })
        json.name("rates")
        json.beginObject()
        json.member("received", number: rate(\.received))
        json.member("stored", number: rate(\.stored))
        json.member("duplicates", number: rate(\.duplicates))
        json.member("acked", number: rate(\.acked))
        json.member("handled", number: rate(\.handled))
        json.endObject()
        json.name("ack_latency_seconds")
        json.beginObject()
        json.member("p50", number: ackLatency.half)
        json.member("p99", number: ackLatency.most)
        json.endObject()
        json.name("streams")
        json.array(streams) { $1.write(to: &$0) }
        json.name("workers")
        json.array(workers) { $1.write(to: &$0) }
        json.name("handlers")
        json.array(handlers) { $1.write(to: &$0) }
        json.name("sizes")
        json.beginObject()
        json.member("database_bytes", store.databaseBytes)
        json.name("tables")
        json.array(store.tables) { json, table in
            json.beginObject()
            json.member("name", table.name)
            json.member("rows_estimate", table.rows)
            json.member("bytes", table.bytes)
            json.endObject()
        }
        json.member("days", store.days.count)
        json.member("days_ahead", store.daysAhead)
        json.endObject()
        json.name("categories")
        json.array(store.categories) { json, category in
            json.beginObject()
            json.member("name", category.name)
            json.member("rows_estimate", category.rows)
            json.endObject()
        }
    }
}

extension RetentionView {
    func write(to json: inout JSONWriter) {
        json.name("items")
        json.array(plan?.partitions ?? []) { $1.write(to: &$0) }
        json.member("next", nil as String?)
        json.name("missing")
        json.array(plan?.missing ?? []) { $0.string($1.start.date) }
        json.name("policy")
        if let policy {
            json.beginObject()
            json.member("messages_seconds", number: policy.policy.messages.inSeconds)
            json.member("dedupe_window_seconds", number: policy.policy.dedupeWindow.inSeconds)
            json.member("dead_letters_seconds", number: policy.policy.deadLetters.inSeconds)
            json.member("attempts_seconds", number: policy.policy.attempts.inSeconds)
            json.member("set_by", policy.setBy)
            json.member("set_at", policy.setAt)
            json.endObject()
        } else {
            json.null()
        }
        json.name("expired")
        json.beginObject()
        json.member("conflicts", plan?.conflicts ?? 0)
        json.member("quarantine", plan?.quarantine ?? 0)
        json.member("dead_letters", plan?.deadLetters ?? 0)
        json.member("ledger_estimate", plan?.ledgerExpired)
        json.member("counted_to", Overview.countLimit)
        json.endObject()
        json.member("last_run_at", lastRun)
    }
}
