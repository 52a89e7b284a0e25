import ConfigurationKeys
package import DNS
package import Logging
package import MessageStore
import Vocabulary
package import XMLWire

/// A part of the configuration with its own files, which only its users must be able to read.
package enum ConfigurationPart: Sendable, CaseIterable {
    case senders
    case handlers
    case console
}

extension Set<ConfigurationPart> {
    package static var worker: Self { [.senders, .handlers] }
}

/// All settings of an operator.
package struct WorkerConfiguration: Sendable, Equatable {
    package enum LogStyle: String, CaseIterable, Sendable {
        case auto
        case json
        case text
    }

    package var database: DatabaseConfiguration
    package var senders: [SenderConfiguration]
    package var handlers: [HandlerConfiguration]
    package var lease: Duration
    package var retention: RetentionPolicy
    /// How long samples are kept; zero for none.
    package var samples: Duration
    package var limits = StreamLimits()
    package var shutdownGrace: Duration
    package var admin: ListenAddress
    /// The console; nil if a command doesn't read that part.
    package var console: ConsoleConfiguration?
    /// The console's certificate, for those who watch its expiry; nil for plain HTTP.
    package var consoleCertificateFile: String?
    package var nameServers: NameServers
    /// The export of spans; nil if tracing is off.
    package var tracing: TracingConfiguration?
    package var logLevel: Logger.Level
    package var logStyle: LogStyle

    /// How long a CCS server redelivers a message; a ledger that forgets sooner would let it be stored twice.
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
            .value("lease", .duration("1s", "1h"), default: "60s")
            .means("How long a worker that stops answering keeps its deliveries; renewed while it lives.")
        let retention = scope.section("retention")
        self.retention = Self.retention(retention)
        samples = retention.value("samples", .duration("0s", "3650d"), default: "14d")
            .means("How long the history for the console's charts is kept; with `0` none is written.")
        let limits = scope.section("limits")
        self.limits.stanzaBytes = limits.value("stanza", .size(10_000...(8 << 20)), default: "256KiB").means(
            "Largest stanza."
        )
        self.limits.depth = limits.value("depth", .number(4...250), default: "64").means("Deepest nesting of elements.")
        shutdownGrace = scope.section("shutdown")
            .value("grace", .duration("1s", "1h"), default: "25s").means("Longest time for an orderly shutdown.")
        admin = scope.section("admin")
            .value("listen", .listen, default: "127.0.0.1:9464").means("Health and metrics; port 0 takes a free port.")
        console = parts.contains(.console) ? ConsoleConfiguration(scope.section("console")) : nil
        if console == nil { _ = scope.skipped("console") }
        consoleCertificateFile = scope.text(ofAnother: "console.tls.certificate_file")
        let server = scope.section("dns").optional("server", .nameServer, "those of /etc/resolv.conf")
            .means("The name server to ask for the service records of a sender without a host.")
        nameServers = server ?? .system
        // Its files are the worker's alone.
        let isTraced = !parts.isDisjoint(with: [.senders, .handlers])
        tracing = isTraced ? TracingConfiguration(scope.section("tracing")) : nil
        if !isTraced { _ = scope.skipped("tracing") }
        let log = scope.section("log")
        logLevel = log.value("level", .word(Logger.Level.info), default: "info").means("Least level that is logged.")
        logStyle = log.value("format", .word(LogStyle.auto), default: "auto")
            .means("`auto`: text on a terminal, JSON otherwise.")
        for (scopes, key, names) in [
            (senders, "sender_id", self.senders.map(\.senderID)), (handlers, "name", self.handlers.map(\.name)),
        ] {
            for (index, name) in names.enumerated() where !name.isEmpty && names[..<index].contains(name) {
                scopes[index].problem(key, "'\(name)' appears twice")
            }
        }
    }

    private static func retention(_ scope: ConfigurationScope) -> RetentionPolicy {
        let longest = "36500d"
        let policy = RetentionPolicy(
            messages: scope.value("messages", .duration("1d", longest), default: "30d")
                .means("How long bodies are kept."),
            dedupeWindow: scope.value("dedupe_window", .duration("1d", longest), default: "35d")
                .means("How long redeliveries are recognised: at least 28d, and at least `retention.messages`."),
            deadLetters: scope.value("dead_letters", .duration("1d", longest), default: "90d")
                .means("How long dead letters are kept, with their messages."),
            attempts: scope.value("attempts", .duration("0s", longest), default: "7d")
                .means("How long the history of attempts is kept; with `0` none is written.")
        )
        if policy.dedupeWindow < longestRedelivery {
            scope.problem("dedupe_window", "must be at least 28d: a server may redeliver a message for that long")
        }
        if policy.dedupeWindow < policy.messages {
            scope.problem("dedupe_window", "must not be shorter than retention.messages")
        }
        return policy
    }
}

/// The database, and the batches written to it.
package struct DatabaseConfiguration: Sendable, Equatable {
    package var url: String
    /// Where console and commands read; nil for `url`.
    package var readURL: String?
    package var writers: Int
    package var batchLimit: Int

    init(_ scope: ConfigurationScope) {
        url = scope.required("url", .text)
            .means("libpq URI or key=value; `PG*` variables apply, several hosts work, passwords go to `passfile=`.")
        readURL = Self.optionalURL(
            scope,
            "`database.url`",
            "A standby for console and lists to read, written as `url` is; a role that only reads will do.",
            key: "read_url"
        )
        writers = scope.value("writers", .number(1...64), default: "2").means("Parallel batch writers.")
        batchLimit = scope.value("batch_limit", .number(1...10_000), default: "500")
            .means("Rows in one transaction at most.")
        Self.check(url, scope)
    }

    /// A section's own connection string, if any; `note` is its default in the table.
    static func optionalURL(
        _ scope: ConfigurationScope,
        _ note: String,
        _ meaning: String,
        key: String = "url"
    ) -> String? {
        let url = scope.optional(key, .text, note).means(meaning)
        if let url { check(url, scope, key) }
        return url
    }

    private static func check(_ url: String, _ scope: ConfigurationScope, _ key: String = "url") {
        let read = CredentialText(url)
        guard read.holdsPassword else { return }
        let what = read.namesOddPort ? "has a port that is no number; and it must" : "must"
        scope.problem(key, "\(what) not hold a password; put it into a file and add passfile=/path (see ~/.pgpass)")
    }
}

package enum ListenAddress: Sendable, Equatable {
    case off
    /// On a host and port; port 0 takes a free one.
    case tcp(host: String, port: Int)
}

extension ConfigurationType where Value == ListenAddress {
    /// `off`, `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`.
    static var listen: Self {
        let wanted = "'off' or host:port such as 127.0.0.1:9464 or [::1]:9464"
        return .init(name: "`off` or host:port", placeholder: .off, wanted: wanted) { text in
            if text == "off" { return .off }
            guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
                return nil
            }
            var host = String(text[..<colon])
            if host.hasPrefix("["), host.hasSuffix("]") {
                host = String(host.dropFirst().dropLast())
                guard NetworkAddress(host)?.isIPv6 == true else { return nil }
            } else if host.isEmpty || host.contains(where: { ":/ ".contains($0) }) {
                return nil
            }
            return .tcp(host: host, port: Int(port))
        }
    }
}
