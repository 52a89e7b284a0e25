import MessageStore
import Querying
import Vocabulary

extension Overview {
    /// Writes the members of `GET overview`.
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
        json.array(HandlerView.all(store.handlers, workers)) { $1.write(to: &$0) }
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

extension WorkerReport.Streams {
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("sender", sender)
        json.member("connecting", connecting)
        json.member("bound", bound)
        json.member("draining", draining)
        json.endObject()
    }
}

extension WorkerRow {
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("worker", worker)
        json.member("version", version)
        json.member("roles", list: roles)
        json.member("started_at", startedAt)
        json.member("heartbeat_at", heartbeatAt)
        json.member("alive", is: isAlive)
        json.member("stopping", is: isStopping)
        json.member("in_flight", inFlight)
        json.name("streams")
        json.array(streams) { $1.write(to: &$0) }
        json.name("rates")
        json.beginObject()
        json.member("seconds", number: rates.seconds)
        json.member("received", number: rates.received)
        json.member("stored", number: rates.stored)
        json.member("duplicates", number: rates.duplicates)
        json.member("acked", number: rates.acked)
        json.member("handled", number: rates.handled)
        json.member("ack_p50", number: rates.ackP50)
        json.member("ack_p99", number: rates.ackP99)
        json.endObject()
        json.endObject()
    }
}

extension HandlerView {
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("name", state.name)
        json.member("categories", list: state.categories)
        json.member("running", is: state.isClaimed)
        json.member("seen_at", state.seenAt)
        json.member("paused", is: state.isPaused)
        json.member("paused_until", state.pausedUntil)
        json.member("paused_reason", state.pausedReason)
        json.member("held_until", state.heldUntil)
        json.member("held_reason", state.heldReason)
        json.member("circuit", circuit)
        json.member("next_probe_at", nextProbeAt)
        json.member("waiting", state.depth)
        json.member("oldest_seconds", number: state.oldestAge?.inSeconds)
        json.member("dead_letters", state.deadLetters)
        json.member("counted_to", Overview.countLimit)
        json.member("in_progress", running)
        json.member("attempts_per_second", number: attempts)
        json.member("failed_per_second", number: failed)
        json.name("workers")
        json.array(state.workers) { json, worker in
            json.beginObject()
            json.member("worker", worker.worker)
            json.member("categories", list: worker.categories)
            json.member("ordered", is: worker.isByDevice)
            json.member("seen_at", worker.seenAt)
            json.member("alive", is: worker.isLive)
            json.endObject()
        }
        json.endObject()
    }
}

extension RetentionView {
    /// Writes the members of `GET partitions`.
    func write(to json: inout JSONWriter) {
        json.name("items")
        json.array(plan?.partitions ?? []) { json, day in
            json.beginObject()
            json.member("day", day.day.start.date)
            json.member("name", day.name)
            json.member("rows_estimate", day.rows)
            json.member("bytes", day.bytes)
            json.member("fate", day.fate.rawValue)
            json.member("waiting_deliveries", day.waiting)
            json.member("dead_letters", day.deadLetters)
            json.endObject()
        }
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
