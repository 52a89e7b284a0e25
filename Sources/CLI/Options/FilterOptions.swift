import ArgumentParser
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// The filter options shared by every command over stored messages.
struct FilterOptions: ParsableArguments {
    @Option(help: "Only this category; given several times, any of them.")
    var category: [String] = []
    @Option(help: "Only messages for this sender.")
    var sender: String?
    @Option(help: ArgumentHelp("Only this device, by its device_key.", valueName: "key"))
    var device: String?
    @Option(
        help: ArgumentHelp(
            "Only the device whose registration token this file holds; - reads stdin. Tokens are never given as arguments.",
            valueName: "file"
        ),
        completion: .file()
    )
    var fromTokenFile: String?
    @Option(help: ArgumentHelp("What `forget` calls it.", visibility: .hidden))
    var tokenFile: String?
    @Option(name: .customLong("message-id"), help: ArgumentHelp("Only messages with this id.", valueName: "id"))
    var messageID: String?
    @Option(help: ArgumentHelp("Only one message, by its message_key.", valueName: "key"))
    var messageKey: String?
    @Option(
        help: ArgumentHelp(
            "Received at or after: 2h, 30d, yesterday, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without an offset).",
            valueName: "time"
        )
    )
    var since: String?
    @Option(help: ArgumentHelp("Received before.", valueName: "time"))
    var until: String?
    @Option(
        name: .customLong("where"),
        help: ArgumentHelp(
            """
            Only messages whose data matches: data.path=value, also != < <= > >= ~ (regular expression) and 'data.path exists'; \
            given several times, all must match.
            """,
            valueName: "clause"
        )
    )
    var clauses: [String] = []

    /// The filter with its times relative to the database's clock.
    ///
    /// The rest was parsed earlier, so that mistakes are reported without a database.
    ///
    /// - Throws: What ``make(_:)`` throws for the times, and `PostgresError`.
    func judged(_ filter: MessageFilter, _ connection: PostgresConnection) async throws -> MessageFilter {
        guard since != nil || until != nil else { return filter }
        let now = try await MessageTail.now(connection)
        var filter = filter
        (filter.since, filter.until) = try times(now: now)
        return filter
    }

    private func times(now: Timestamp) throws -> (since: Timestamp?, until: Timestamp?) {
        let times = (
            since: try since.map { try TimeExpression.parse($0, now: now) },
            until: try until.map { try TimeExpression.parse($0, now: now) }
        )
        if let since = times.since, let until = times.until, since >= until {
            throw CommandFailure(.usage, "--since must be before --until")
        }
        return times
    }

    /// Parses the filter.
    ///
    /// - Parameters:
    ///   - console: Where a token is read.
    ///   - handlers: Values of `--handler`, which count towards the limits.
    /// - Throws: ``CommandFailure`` and `FilterError`: a value can't be parsed, or there are too many.
    /// - Returns: The filter.
    func make(_ console: Terminal, handlers: [String] = []) throws -> MessageFilter {
        let lists = ["--category": category, "--where": clauses, "--handler": handlers]
        let single = ["--sender": sender, "--message-id": messageID].mapValues { $0.map { [$0] } ?? [] }
        if let excess = FilterBounds.excess(in: lists.merging(single) { first, _ in first }) {
            throw CommandFailure(.usage, excess)
        }
        var filter = MessageFilter()
        filter.categories = category
        filter.senderID = sender
        filter.messageID = messageID
        filter.messageKey = try messageKey.map { try MessageKey($0, for: "--message-key") }
        (filter.since, filter.until) = try times(now: .now)
        filter.clauses = try clauses.map { try WhereClause(parsing: $0) }
        if let device {
            guard fromTokenFile == nil, tokenFile == nil else {
                throw CommandFailure(.usage, "--device and --from-token-file both name a device: give one of them")
            }
            guard let key = DeviceKey(device) else {
                throw CommandFailure(
                    .usage,
                    "--device takes a device_key, 8-4-4-4-12 hex digits; a token goes into a file: --from-token-file"
                )
            }
            filter.deviceKey = key
        } else if let file = fromTokenFile ?? tokenFile {
            filter.deviceKey = DeviceKey(of: try TokenFile.read(file, stdin: console.input.descriptor))
        }
        return filter
    }
}
