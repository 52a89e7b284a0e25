import ConfigurationKeys
package import DNS
package import Logging
package import MessageStore

/// A part of the configuration with its own files, which only its users must be able to read.
package enum ConfigurationPart: Sendable, CaseIterable {
    case senders
    case handlers
    case console
}

extension Set<ConfigurationPart> {
    /// The parts that a worker needs.
    package static var worker: Self { [.senders, .handlers] }
}

/// All settings of an operator.
package struct WorkerConfiguration: Sendable, Equatable {
    package enum LogStyle: String, CaseIterable, Sendable {
        /// Text on a terminal, JSON otherwise.
        case auto
        /// One JSON object per line.
        case json
        /// Lines for people.
        case text
    }

    package var database: DatabaseConfiguration
    /// The senders; empty only if a command doesn't need them.
    package var senders: [SenderConfiguration]
    package var handlers: [HandlerConfiguration]
    /// How long a delivery stays leased to a worker that has stopped responding.
    package var lease: Duration
    package var retention: RetentionPolicy
    /// The largest stanza, in bytes.
    package var stanzaLimit: Int
    /// The deepest nesting of elements in a stanza.
    package var depthLimit: Int
    /// How long a graceful shutdown may take.
    package var shutdownGrace: Duration
    package var admin: ListenAddress
    /// The console; nil if a command doesn't read that part.
    package var console: ConsoleConfiguration?
    /// The console's certificate, for those who watch its expiry; nil for plain HTTP.
    package var consoleCertificateFile: String?
    /// The servers that resolve senders' service records.
    package var nameServers: NameServers
    /// The export of spans; nil if tracing is off.
    package var tracing: TracingConfiguration?
    package var logLevel: Logger.Level
    package var logStyle: LogStyle

    /// The longest time after which a CCS server still redelivers a message.
    ///
    /// A ledger that forgets sooner would let such a message be stored twice.
    package static let longestRedelivery = Duration.seconds(28 * 86_400)

    /// The possible values of the metrics' label `category`.
    package var categories: [String] {
        handlers.flatMap(\.categories).filter { $0 != "*" }
    }

    init(_ scope: ConfigurationScope, needsSenders: Bool, parts: Set<ConfigurationPart>) {
        database = DatabaseConfiguration(scope.section("database"))
        let senders = parts.contains(.senders) ? scope.sections("senders") : scope.skipped("senders")
        self.senders = senders.map(SenderConfiguration.init)
        if needsSenders, senders.isEmpty { scope.problem("senders", "must list at least one sender") }
        let handlers = parts.contains(.handlers) ? scope.sections("handlers") : scope.skipped("handlers")
        self.handlers = handlers.map(HandlerConfiguration.init)
        lease = scope.section("dispatch")
            .value(
                "lease",
                .duration("1s", "1h"),
                default: "60s",
                "How long a worker that stops answering keeps its deliveries; renewed while it lives."
            )
        retention = Self.retention(scope.section("retention"))
        let limits = scope.section("limits")
        stanzaLimit = limits.value("stanza", .size(10_000...(8 << 20)), default: "256KiB", "Largest stanza.")
        depthLimit = limits.value("depth", .number(4...250), default: "64", "Deepest nesting of elements.")
        shutdownGrace = scope.section("shutdown")
            .value("grace", .duration("1s", "1h"), default: "25s", "Longest time for an orderly shutdown.")
        admin = scope.section("admin")
            .value("listen", .listen, default: "127.0.0.1:9464", "Health and metrics; port 0 takes a free port.")
        console = parts.contains(.console) ? ConsoleConfiguration(scope.section("console")) : nil
        if console == nil { _ = scope.skipped("console") }
        consoleCertificateFile = scope.text(ofAnother: "console.tls.certificate_file")
        nameServers =
            scope.section("dns")
            .optional(
                "server",
                .nameServer,
                "those of /etc/resolv.conf",
                "The name server to ask for the service records of a sender without a host."
            ) ?? .system
        // Its files are the worker's alone.
        let isTraced = !parts.isDisjoint(with: [.senders, .handlers])
        tracing = isTraced ? TracingConfiguration(scope.section("tracing")) : nil
        if !isTraced { _ = scope.skipped("tracing") }
        let log = scope.section("log")
        logLevel = log.value("level", .word(Logger.Level.info), default: "info", "Least level that is logged.")
        logStyle = log.value(
            "format",
            .word(LogStyle.auto),
            default: "auto",
            "`auto`: text on a terminal, JSON otherwise."
        )
        checkNames(senders.map { ($0, "sender_id") }, self.senders.map(\.senderID))
        checkNames(handlers.map { ($0, "name") }, self.handlers.map(\.name))
    }

    private static func retention(_ scope: ConfigurationScope) -> RetentionPolicy {
        func period(_ name: String, from least: String = "1d", default text: String, _ meaning: String) -> Duration {
            scope.value(name, .duration(least, "36500d"), default: text, meaning)
        }
        let policy = RetentionPolicy(
            messages: period("messages", default: "30d", "How long bodies are kept."),
            dedupeWindow: period(
                "dedupe_window",
                default: "35d",
                "How long redeliveries are recognised: at least 28d, and at least `retention.messages`."
            ),
            deadLetters: period(
                "dead_letters",
                default: "90d",
                "How long dead letters are kept, with their messages."
            ),
            attempts: period(
                "attempts",
                from: "0s",
                default: "7d",
                "How long the history of attempts is kept; with `0` none is written."
            )
        )
        if policy.dedupeWindow < longestRedelivery {
            scope.problem("dedupe_window", "must be at least 28d: a server may redeliver a message for that long")
        }
        if policy.dedupeWindow < policy.messages {
            scope.problem("dedupe_window", "must not be shorter than retention.messages")
        }
        return policy
    }

    /// Reports duplicate names.
    private func checkNames(_ places: [(scope: ConfigurationScope, key: String)], _ names: [String]) {
        var seen: Set<String> = []
        for (place, name) in zip(places, names) where !name.isEmpty && !seen.insert(name).inserted {
            place.scope.problem(place.key, "'\(name)' appears twice")
        }
    }
}
