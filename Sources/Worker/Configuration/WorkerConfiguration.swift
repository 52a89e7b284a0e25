package import Logging
package import MessageStore

/// Everything an operator can set.
package struct WorkerConfiguration: Sendable, Equatable {
    /// How log lines look.
    package enum LogStyle: String, CaseIterable, Sendable {
        /// Text on a terminal, JSON otherwise.
        case auto
        /// One JSON object a line.
        case json
        /// Lines for people.
        case text
    }

    /// The database.
    package var database: DatabaseConfiguration
    /// The senders; empty only where a command doesn't need them.
    package var senders: [SenderConfiguration]
    /// The handlers; there may be none.
    package var handlers: [HandlerConfiguration]
    /// How long the deliveries of a worker that died lie still.
    package var lease: Duration
    /// How long bodies are kept.
    package var messageRetention: Duration
    /// How long the ledger knows a message.
    package var dedupeWindow: Duration
    /// How long dead letters are kept.
    package var deadLetterRetention: Duration
    /// How long the record of attempts is kept; zero for none.
    package var attemptRetention: Duration
    /// The largest stanza, in bytes.
    package var stanzaLimit: Int
    /// The deepest nesting of elements in a stanza.
    package var depthLimit: Int
    /// How long an orderly shutdown may take.
    package var shutdownGrace: Duration
    /// Where the admin endpoints listen.
    package var admin: ListenAddress
    /// The least level that is logged.
    package var logLevel: Logger.Level
    /// How log lines look.
    package var logStyle: LogStyle

    /// The longest time after which a CCS server still redelivers a message.
    ///
    /// A ledger that forgets earlier would store such a message twice.
    package static let longestRedelivery = Duration.seconds(28 * 86_400)

    /// How long what is kept.
    package var retention: RetentionPolicy {
        RetentionPolicy(
            messages: messageRetention,
            dedupeWindow: dedupeWindow,
            deadLetters: deadLetterRetention,
            attempts: attemptRetention
        )
    }

    /// The names that the metrics' label `category` may take.
    package var categories: [String] {
        handlers.flatMap(\.categories).filter { $0 != "*" }
    }

    init(_ scope: ConfigurationScope, needsSenders: Bool) {
        database = DatabaseConfiguration(scope.section("database"))
        let senders = scope.sections("senders")
        self.senders = senders.map(SenderConfiguration.init)
        if needsSenders, senders.isEmpty { scope.problem("senders", "must list at least one sender") }
        let handlers = scope.sections("handlers")
        self.handlers = handlers.map(HandlerConfiguration.init)
        lease = scope.section("dispatch")
            .value(
                "lease",
                .duration("1s", "1h"),
                default: "60s",
                "How long a worker that stops answering keeps its deliveries; renewed while it lives."
            )
        let retention = scope.section("retention")
        messageRetention = retention.value(
            "messages",
            .duration("1d", "36500d"),
            default: "30d",
            "How long bodies are kept."
        )
        dedupeWindow = retention.value(
            "dedupe_window",
            .duration("1d", "36500d"),
            default: "35d",
            "How long redeliveries are recognised: at least 28d, and at least `retention.messages`."
        )
        deadLetterRetention = retention.value(
            "dead_letters",
            .duration("1d", "36500d"),
            default: "90d",
            "How long dead letters are kept, with their messages."
        )
        attemptRetention = retention.value(
            "attempts",
            .duration("0s", "36500d"),
            default: "7d",
            "How long the record of attempts is kept, `0` for none; nothing is recorded yet."
        )
        let limits = scope.section("limits")
        stanzaLimit = limits.value("stanza", .size(10_000...(8 << 20)), default: "256KiB", "Largest stanza.")
        depthLimit = limits.value("depth", .number(4...250), default: "64", "Deepest nesting of elements.")
        shutdownGrace = scope.section("shutdown")
            .value("grace", .duration("1s", "1h"), default: "25s", "Longest time for an orderly shutdown.")
        admin = scope.section("admin")
            .value("listen", .listen, default: "127.0.0.1:9464", "Health and metrics; port 0 takes a free port.")
        let log = scope.section("log")
        logLevel = log.value("level", .word(Logger.Level.info), default: "info", "Least level that is logged.")
        logStyle = log.value(
            "format",
            .word(LogStyle.auto),
            default: "auto",
            "`auto`: text on a terminal, JSON otherwise."
        )
        checkRetention(retention)
        checkNames(senders.map { ($0, "sender_id") }, self.senders.map(\.senderID))
        checkNames(handlers.map { ($0, "name") }, self.handlers.map(\.name))
    }

    private func checkRetention(_ scope: ConfigurationScope) {
        if dedupeWindow < Self.longestRedelivery {
            scope.problem("dedupe_window", "must be at least 28d: a server may redeliver a message that long")
        }
        if dedupeWindow < messageRetention {
            scope.problem("dedupe_window", "must not be shorter than retention.messages")
        }
    }

    /// Refuses a name that stands for two entries.
    private func checkNames(_ places: [(scope: ConfigurationScope, key: String)], _ names: [String]) {
        var seen: Set<String> = []
        for (place, name) in zip(places, names) where !name.isEmpty && !seen.insert(name).inserted {
            place.scope.problem(place.key, "'\(name)' is there twice")
        }
    }
}
