import ArgumentParser
import MessageStore
import Postgres
import Querying
import UpstreamConfiguration
import Vocabulary

/// The options of every command that reads the configuration.
struct CommonOptions: ParsableArguments {
    @Option(
        name: [.short, .long],
        help: "Configuration file. Default: $UPSTREAM_CONFIG, else \(ConfigurationLoader.defaultPath).",
        completion: .file(extensions: ["yaml", "yml"])
    )
    var config: String?

    @Option(
        name: .customLong("set"),
        help: .value("key=value", "Override a key of the configuration, for example --set log.level=debug.")
    )
    var overrides: [String] = []

    /// Reads the configuration, and prints its warnings; files that other parts than these name are not read.
    func load(
        _ context: CommandContext,
        needsSenders: Bool = true,
        parts: Set<ConfigurationPart> = .worker
    ) throws -> ConfigurationLoader.Result {
        let result = try loader(context).load(file: config, needsSenders: needsSenders, parts: parts)
        for warning in result.warnings { context.console.message("warning: \(warning)") }
        return result
    }

    func loader(_ context: CommandContext) throws -> ConfigurationLoader {
        ConfigurationLoader(
            environment: context.environment,
            overrides: try overrides.map { text in
                guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                    throw CommandFailure(
                        .usage,
                        "--set takes key=value, for example --set log.level=debug, not '\(text)'"
                    )
                }
                return ConfigurationLoader.Override(
                    key: String(text[..<equals]),
                    value: String(text[text.index(after: equals)...]),
                    flag: "--set"
                )
            }
        )
    }

    /// Lends a read-only connection to where `database.read_url` says, and tells how far that is behind.
    ///
    /// `timeout` is the limit for each statement in microseconds; nil for a day. `isOfPrimary` reads there whatever is
    /// configured. A standby that is down is a failure: the primary does not get the load that it was to take. `tellsLag` is
    /// false where a command has told it, or will.
    func withReader<T>(
        _ context: CommandContext,
        timeout: Int64?,
        isOfPrimary: Bool = false,
        tellsLag: Bool = true,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        do {
            let configuration = try loadDatabase(context)
            let standby = isOfPrimary ? nil : configuration.database.readURL
            var settings =
                if let standby { try PostgresSettings.reader(url: standby) } else {
                    try PostgresSettings(url: configuration.database.url)
                }
            settings.statementTimeout = Int(max(1, (timeout ?? 86_400_000_000) / 1_000))
            do {
                let connection = try await PostgresConnection.open(settings)
                try await connection.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
                if tellsLag, settings.isReader, let note = try await connection.readLag().note {
                    context.console.message(note)
                }
                let result = try await body(connection)
                await connection.close()
                return result
            } catch let error as PostgresError where settings.isReader {
                throw error.ofReader
            }
        } catch let error as PostgresError where error.sqlState == "57014" || error.failureClass == .deadline {
            throw CommandFailure(
                .temporaryFailure,
                "the database did not answer within --timeout: narrow the query, by --since for example, or allow more"
            )
        } catch let error as PostgresError where error.failureClass == .lock {
            throw CommandFailure(
                .temporaryFailure,
                "database: \(error): another session has locked the table: try again later"
            )
        } catch let error as PostgresError where error.sqlState == "2201B" {
            throw CommandFailure(.usage, "--where: \(error.message)")
        }
    }

    /// Warns before a query that may read very many messages one by one.
    func warn(of filter: MessageFilter, _ connection: PostgresConnection, _ console: Terminal) async throws {
        guard let rows = try await ScanEstimate.rowsToRead(filter, connection) else { return }
        let ways = [
            filter.categories.isEmpty ? "--category" : nil, filter.deviceKey == nil ? "--device" : nil,
            filter.since == nil ? "--since" : "a later --since", "--message-id",
        ].compactMap(\.self)
        console.message(
            "note: this may read about \(Amount.count(rows)) messages one by one; narrow it with "
                + ways.dropLast().joined(separator: ", ") + " or " + (ways.last ?? "")
        )
    }

    /// Reads the configuration for a command that needs only the database.
    ///
    /// Secrets of senders, files of handlers and tokens of the console may not be readable to this user, such as
    /// systemd's credentials in a shell.
    func loadDatabase(_ context: CommandContext) throws -> WorkerConfiguration {
        try load(context, needsSenders: false, parts: []).configuration
    }

    func withConnection<T>(
        _ context: CommandContext,
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        try await withDatabase(context, statementTimeout: statementTimeout) { connection, _ in
            try await body(connection)
        }
    }

    /// Connects to the configured database and lends the connection and the configuration.
    ///
    /// `statementTimeout` is in milliseconds; nil for the default.
    func withDatabase<T>(
        _ context: CommandContext,
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection, WorkerConfiguration) async throws -> T
    ) async throws -> T {
        let configuration = try loadDatabase(context)
        var settings = try PostgresSettings(url: configuration.database.url)
        if let statementTimeout { settings.statementTimeout = statementTimeout }
        let connection = try await PostgresConnection.open(settings)
        let result = try await body(connection, configuration)
        await connection.close()
        return result
    }
}

struct ReadOptions: ParsableArguments {
    @Option(help: .value("duration", "How long one statement may take, for example 2m."))
    var timeout = DurationArgument(seconds: 30)
}

/// The reason of a command that is recorded in the audit trail.
struct ReasonOption: ParsableArguments {
    @Option(help: "The reason, for the audit trail.") var reason: String?

    var author: AuditAuthor { .command(reason) }
}

extension AuditAuthor {
    /// The author of a command: the operating system's user and host; the database adds the role.
    static func command(_ reason: String?) -> AuditAuthor {
        AuditAuthor(ReplayCommand.who, via: .command, reason: reason)
    }
}

extension ArgumentHelp {
    static func value(_ name: String, _ text: String) -> ArgumentHelp { ArgumentHelp(text, valueName: name) }

    static func unlisted(_ text: String) -> ArgumentHelp { ArgumentHelp(text, visibility: .hidden) }
}

/// A duration as the configuration writes it: `250ms`, `30s`, `15m`, `12h`, `30d`.
struct DurationArgument: ExpressibleByArgument {
    /// At least 1.
    let microseconds: Int64

    var duration: Duration { .microseconds(microseconds) }

    /// A default in seconds.
    init(seconds: Int64) { microseconds = seconds * 1_000_000 }

    var defaultValueDescription: String { "\(microseconds / 1_000_000)s" }

    init?(argument: String) {
        // More than a hundred years is a mistake.
        guard let text = DurationText(argument), text.count > 0, text.unit != .weeks, let duration = text.duration,
            duration <= .seconds(36_525 * 86_400)
        else { return nil }
        microseconds = duration.microseconds
    }
}
