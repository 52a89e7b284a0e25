/// The name of every metric, never changed but only retired, since dashboards and alerts refer to it.
package enum MetricName: String, CaseIterable, Sendable {
    case connections = "upstream_xmpp_connections"
    case stanzas = "upstream_stanzas_received_total"
    case messages = "upstream_messages_total"
    case inFlight = "upstream_messages_in_flight"
    case acks = "upstream_acks_total"
    case ackLatency = "upstream_ack_latency_seconds"
    case commitDuration = "upstream_commit_duration_seconds"
    case commitsWaiting = "upstream_commits_waiting_for_standby"
    case batchMessages = "upstream_batch_messages"
    case databaseErrors = "upstream_database_errors_total"
    case reconnects = "upstream_reconnects_total"
    case deliveries = "upstream_deliveries_total"
    case deliveryDuration = "upstream_delivery_duration_seconds"
    case deadLetters = "upstream_dead_letters"
    case oldestDelivery = "upstream_oldest_delivery_age_seconds"
    case deliveriesWaiting = "upstream_deliveries_waiting"
    case circuit = "upstream_handler_circuit"
    case paused = "upstream_handler_paused"
    case replaysRunning = "upstream_replays_running"
    case transactionAge = "upstream_database_transaction_age"
    case slotBytes = "upstream_database_slot_wal_bytes"
    case slotShare = "upstream_database_slot_wal_ratio"
    case partitionsAhead = "upstream_partitions_ahead"
    case retentionLastRun = "upstream_retention_last_run_timestamp_seconds"
    case retentionHeld = "upstream_retention_held_partitions"
    case diskFree = "upstream_database_disk_free_bytes"
    case certificateEnd = "upstream_certificate_end_timestamp_seconds"
    case clockAhead = "upstream_clock_ahead_seconds"
    case spans = "upstream_trace_spans_total"
    case logLinesDropped = "upstream_log_lines_dropped_total"
    case buildInfo = "upstream_build_info"

    // The names that Prometheus's client libraries use for process metrics
    // (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics).
    case processCPU = "process_cpu_seconds_total"
    case processOpenFiles = "process_open_fds"
    case processMostFiles = "process_max_fds"
    case processVirtualMemory = "process_virtual_memory_bytes"
    case processMemory = "process_resident_memory_bytes"
    case processStart = "process_start_time_seconds"
    case processThreads = "process_threads"

    package enum Kind: String, Sendable {
        case counter
        case gauge
        case histogram
    }

    package var kind: Kind { about.kind }

    /// The labels, in the order in which they are written.
    package var labels: [String] { about.labels }

    package var help: String { about.help }

    private var about: (kind: Kind, labels: [String], help: String) {
        switch self {
        case .connections: (.gauge, ["sender", "state"], "XMPP connections by sender and state.")
        case .stanzas: (.counter, ["kind"], "Stanzas received, by what they were.")
        case .messages:
            (.counter, ["category", "outcome"], "Delivered copies that have been settled, by category and outcome.")
        case .inFlight: (.gauge, [], "Delivered copies received and not yet settled.")
        case .acks: (.counter, ["outcome"], "Acks written, and acks dropped because their connection was gone.")
        case .ackLatency: (.histogram, [], "Time from a stanza parsed to its ack written.")
        case .commitDuration: (.histogram, [], "Time that the transaction of a batch took.")
        case .commitsWaiting: (.gauge, [], "Commits found waiting for a standby to confirm them.")
        case .batchMessages: (.histogram, [], "Delivered copies in a committed batch.")
        case .databaseErrors: (.counter, ["class"], "Database errors, by class of SQLSTATE.")
        case .reconnects: (.counter, ["reason"], "Connections opened again, by why the one before ended.")
        case .deliveries: (.counter, ["handler", "outcome"], "Attempts to hand a message to a handler, by outcome.")
        case .deliveryDuration: (.histogram, ["handler"], "Time that an attempt took in its handler.")
        case .deadLetters: (.gauge, ["handler"], "Deliveries given up and kept in dead_letters.")
        case .oldestDelivery: (.gauge, ["handler"], "Age of the oldest delivery that waits.")
        case .deliveriesWaiting:
            (.gauge, ["handler"], "Deliveries that wait or run, over all workers, counted up to 100,000.")
        case .circuit:
            (.gauge, ["handler", "state"], "1 for what the handler's circuit breaker is doing in this worker.")
        case .paused: (.gauge, ["handler"], "1 where the handler is paused.")
        case .replaysRunning: (.gauge, [], "Replays to handlers that this worker runs.")
        case .transactionAge:
            (
                .gauge, [],
                "Transactions since the oldest id in a database of the server; it takes none from about 2,145 million on."
            )
        case .slotBytes: (.gauge, [], "The most write-ahead log that a replication slot keeps.")
        case .slotShare:
            (.gauge, [], "Its share of max_slot_wal_keep_size: 1 where a slot has lost some, NaN without a limit.")
        case .partitionsAhead: (.gauge, [], "Days after today that have a partition of messages, without a gap.")
        case .retentionLastRun:
            (.gauge, [], "When the last complete run of retention began, over all workers; 0 if never.")
        case .retentionHeld:
            (.gauge, [], "Expired partitions that the last complete run of retention had to keep, over all workers.")
        case .diskFree:
            (
                .gauge, [],
                "What the database's disk has left, where the server is on this machine and the role may see its folder."
            )
        case .certificateEnd:
            (
                .gauge, ["certificate", "name"],
                "When a certificate ends that was seen: a sender's server's, a webhook's, the console's, or one of ours."
            )
        case .clockAhead:
            (.gauge, [], "How far the machine's clock is ahead of the database's; negative where it is behind.")
        case .spans: (.counter, ["outcome"], "Spans recorded by tracing, by what became of them.")
        case .logLinesDropped: (.counter, [], "Log lines dropped because nobody read the log in time.")
        case .buildInfo: (.gauge, ["version"], "Always 1; the version is in the label.")
        case .processCPU: (.counter, [], "CPU time that the process has used, user and system.")
        case .processOpenFiles: (.gauge, [], "File descriptors that are open.")
        case .processMostFiles: (.gauge, [], "The most file descriptors that may be open.")
        case .processVirtualMemory: (.gauge, [], "Virtual memory of the process.")
        case .processMemory: (.gauge, [], "Memory of the process that is in RAM.")
        case .processStart: (.gauge, [], "When the process started, since 1970 UTC.")
        case .processThreads: (.gauge, [], "Threads of the process.")
        }
    }
}
