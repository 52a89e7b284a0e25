/// The name of every metric.
///
/// Dashboards and alerts are written against these: a name is never changed, only retired.
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
    case buildInfo = "upstream_build_info"

    /// How Prometheus treats the values.
    package enum Kind: String, Sendable {
        case counter
        case gauge
        case histogram
    }

    /// How Prometheus treats the values.
    package var kind: Kind {
        switch self {
        case .stanzas, .messages, .acks, .databaseErrors, .reconnects, .deliveries: .counter
        case .connections, .inFlight, .commitsWaiting, .deadLetters, .oldestDelivery, .buildInfo: .gauge
        case .ackLatency, .commitDuration, .batchMessages, .deliveryDuration: .histogram
        }
    }

    /// The labels, in the order they are written.
    package var labels: [String] {
        switch self {
        case .connections: ["sender", "state"]
        case .stanzas: ["kind"]
        case .messages: ["category", "outcome"]
        case .acks: ["outcome"]
        case .databaseErrors: ["class"]
        case .reconnects: ["reason"]
        case .deliveries: ["handler", "outcome"]
        case .deliveryDuration, .deadLetters, .oldestDelivery: ["handler"]
        case .buildInfo: ["version"]
        case .inFlight, .ackLatency, .commitDuration, .commitsWaiting, .batchMessages: []
        }
    }

    /// What it measures, for people.
    package var help: String {
        switch self {
        case .connections: "XMPP connections by sender and state."
        case .stanzas: "Stanzas received, by what they were."
        case .messages: "Delivered copies that have been settled, by category and outcome."
        case .inFlight: "Delivered copies received and not yet settled."
        case .acks: "Acks written, and acks dropped because their connection was gone."
        case .ackLatency: "Time from a stanza parsed to its ack written."
        case .commitDuration: "Time that the transaction of a batch took."
        case .commitsWaiting: "Commits found waiting for a standby to confirm them."
        case .batchMessages: "Delivered copies in a committed batch."
        case .databaseErrors: "Database errors, by class of SQLSTATE."
        case .reconnects: "Connections opened again, by why the one before ended."
        case .deliveries: "Attempts to hand a message to a handler, by outcome."
        case .deliveryDuration: "Time that an attempt took in its handler."
        case .deadLetters: "Deliveries given up and kept in dead_letters."
        case .oldestDelivery: "Age of the oldest delivery that waits."
        case .buildInfo: "Always 1; the version is in the label."
        }
    }
}
