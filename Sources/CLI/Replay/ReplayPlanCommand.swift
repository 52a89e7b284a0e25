import ArgumentParser
import Foundation
import Postgres
import Querying
import Replaying
import UpstreamKit
import Worker

extension ReplayCommand {
    /// `replay plan`.
    struct Plan: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Freezes what is to be sent, and shows it; sends nothing.",
            discussion: """
                Examples:
                  upstream-worker replay plan friday --category com.example.orders --since 2026-01-30 --to-handlers
                  upstream-worker replay plan --handler billing --only-failed --reason "billing was down"
                  upstream-worker replay plan audit --since 30d --handler audit --include-succeeded --rate 500/s
                  upstream-worker replay plan --since 1d --output day.ndjson
                  upstream-worker replay plan --since 1h --to staging:5235 --account 123@fcm.internal --speed 1x
                  upstream-worker replay plan --since 1h --to-handlers --dry-run

                To handlers, a plan holds what each has not had: dead letters, and messages from before it was \
                registered. --include-succeeded adds what it has had, --only-failed takes dead letters alone. What waits \
                for a handler comes by itself and is never doubled.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name; one is made up where none is given.")
        var name: String?
        @OptionGroup(title: "Which messages") var filter: FilterOptions
        @Option(help: "Only one message, by its message_key.")
        var messageKey: String?
        @OptionGroup(title: "How fast") var pace: ReplayPaceOptions
        @Flag(help: "To the handlers that are subscribed to each message's category.")
        var toHandlers = false
        @Option(name: .customLong("handler"), help: "To this handler, whatever it is subscribed to; may be repeated.")
        var handlers: [String] = []
        @Flag(help: "Dead letters alone.")
        var onlyFailed = false
        @Flag(help: "What the handlers have had, too.")
        var includeSucceeded = false
        @Option(help: ArgumentHelp("To an XMPP server with a worker behind it.", valueName: "host:port"))
        var to: String?
        @Option(help: ArgumentHelp("The account there: the worker's own.", valueName: "name@domain"))
        var account: String?
        @Option(help: ArgumentHelp("To a file; - for stdout.", valueName: "file"), completion: .file())
        var output: String?
        @Option(help: "What stands in the output: ndjson or stanzas.")
        var format = ReplayFormat.ndjson
        @Option(help: "Why, for whoever looks at it later.")
        var reason: String?
        @Flag(help: "Count and show, and keep nothing.")
        var dryRun = false
        @Flag(help: "One JSON object instead of text.")
        var json = false

        func run() async throws {
            let name = name ?? Self.inventedName()
            try ReplayCommand.check(name: name)
            var chosen = try filter.make()
            if let messageKey {
                guard let key = MessageKey(messageKey) else {
                    throw CommandFailure(.usage, "--message-key takes 8-4-4-4-12 hex digits")
                }
                chosen.messageKey = key
            }
            var request = ReplayRequest(
                name: name,
                filter: chosen,
                target: try target(),
                who: ReplayCommand.who
            )
            request.pace = pace.make()
            request.reason = reason
            let typed = request
            let configuration = try options.load(needsSenders: false).configuration
            var settings = try PostgresSettings(url: configuration.database.url)
            // A plan over tens of millions of rows takes minutes, and an hour is enough for any.
            settings.statementTimeout = 3_600_000
            let connection = try await PostgresConnection.open(settings)
            var wanted = typed
            wanted.filter = try await filter.judged(typed.filter, connection)
            let plan: ReplayPlan
            do {
                plan = try await ReplayPlanner(connection).plan(wanted, isDryRun: dryRun)
            } catch let error as ReplayError {
                throw CommandFailure(error)
            }
            await connection.close()
            if json {
                try Console.json(ReplayPlanReport(plan))
            } else {
                Console.data(ReplayPlanReport.text(plan))
            }
            guard plan.planned > 0 else {
                throw CommandFailure(.negative, "there is nothing to send" + (dryRun ? "" : "; nothing was planned"))
            }
            if dryRun { return Console.message("a dry run: nothing was planned") }
            Console.message("planned '\(plan.name)'; send it with: \(WorkerProgram.name) replay start \(plan.name)")
        }

        private func target() throws -> ReplayRequest.Wish {
            let isToHandlers = toHandlers || !handlers.isEmpty
            guard [isToHandlers, to != nil, output != nil].filter({ $0 }).count == 1 else {
                throw CommandFailure(
                    .usage,
                    "say where to, in one way: --to-handlers, --handler NAME, --to HOST:PORT, or --output FILE"
                )
            }
            guard isToHandlers || !(onlyFailed || includeSucceeded) else {
                throw CommandFailure(.usage, "--only-failed and --include-succeeded are about handlers")
            }
            guard !(onlyFailed && includeSucceeded) else {
                throw CommandFailure(.usage, "--only-failed and --include-succeeded contradict each other")
            }
            if isToHandlers {
                return .handlers(handlers, onlyFailed ? .onlyFailed : includeSucceeded ? .all : .notHandled)
            }
            if let output {
                let path =
                    output == "-"
                    ? nil
                    : URL(filePath: output, relativeTo: .currentDirectory()).standardizedFileURL.path
                return .other(.output(path: path, format: format))
            }
            let endpoint = to ?? ""
            guard let colon = endpoint.lastIndex(of: ":"), let port = Int(endpoint[endpoint.index(after: colon)...]),
                (1...65_535).contains(port), colon != endpoint.startIndex
            else { throw CommandFailure(.usage, "--to takes HOST:PORT") }
            let host = endpoint[..<colon].trimmingCharacters(in: ["[", "]"])
            guard let account, account.split(separator: "@", omittingEmptySubsequences: false).count == 2,
                !account.hasPrefix("@"), !account.hasSuffix("@"), !account.contains("/")
            else {
                throw CommandFailure(.usage, "--to needs --account NAME@DOMAIN: the account that the worker there has")
            }
            return .other(.endpoint(host: host, port: port, account: account))
        }

        private static func inventedName() -> String {
            let digits = HandlersCommand.time(Int64(Date().timeIntervalSince1970 * 1e6))
                .prefix(19).filter { $0.isNumber }
            return "replay-\(digits.prefix(8))-\(digits.suffix(6))"
        }
    }
}

extension ReplayFormat: ExpressibleByArgument {}

/// A plan as programs and people read it.
struct ReplayPlanReport: Encodable {
    private var name: String
    private var replayId: String?
    private var target: String
    private var selected: Int64
    private var planned: Int64
    private var firstReceivedAt: String?
    private var lastReceivedAt: String?
    private var categories: [Count]
    private var handlers: [Handler]
    private var rate: Double?
    private var speed: Double?
    private var estimatedSeconds: Double
    private var estimateIsMeasured: Bool
    private var sample: [Sample]

    private struct Count: Encodable {
        var category: String
        var count: Int64
    }

    private struct Handler: Encodable {
        var handler: String
        var dead: Int64
        var beforeRegistered: Int64
        var handled: Int64
        var pending: Int64
        var planned: Int64
    }

    private struct Sample: Encodable {
        var receivedAt: String
        var messageKey: String
        var deviceKey: String
        var category: String
        var dataBytes: Int
    }

    init(_ plan: ReplayPlan) {
        name = plan.name
        replayId = plan.id
        target = plan.target.description
        selected = plan.selected
        planned = plan.planned
        firstReceivedAt = plan.span.map { HandlersCommand.time($0.lowerBound) }
        lastReceivedAt = plan.span.map { HandlersCommand.time($0.upperBound) }
        categories = plan.categories.map { Count(category: $0.name, count: $0.count) }
        handlers = plan.handlers.map {
            Handler(
                handler: $0.handler,
                dead: $0.dead,
                beforeRegistered: $0.new,
                handled: $0.handled,
                pending: $0.pending,
                planned: $0.planned
            )
        }
        rate = plan.pace.rate
        speed = plan.pace.speed
        estimatedSeconds = plan.estimate
        estimateIsMeasured = plan.isMeasured
        sample = plan.sample.map {
            Sample(
                receivedAt: HandlersCommand.time($0.message.receivedAtMicroseconds),
                messageKey: $0.message.messageKey.description,
                deviceKey: $0.message.deviceKey.description,
                category: $0.message.category,
                dataBytes: $0.message.data?.count ?? 0
            )
        }
    }

    /// For people.
    static func text(_ plan: ReplayPlan) -> String {
        let isToHandlers = if case .handlers = plan.target { true } else { false }
        var facts = [
            ["replay", plan.name],
            ["to", plan.target.description],
            ["selected", "\(Amount.count(plan.selected)) messages"],
            ["to send", "\(Amount.count(plan.planned)) \(isToHandlers ? "deliveries" : "messages")"],
        ]
        if let span = plan.span {
            let length = Amount.time(Double(span.upperBound - span.lowerBound) / 1e6)
            let from = HandlersCommand.time(span.lowerBound)
            facts.append(["received", "\(from) to \(HandlersCommand.time(span.upperBound)) (\(length))"])
        }
        if let rate = plan.pace.rate { facts.append(["rate", "\(Amount.decimal(rate))/s at most"]) }
        if let speed = plan.pace.speed { facts.append(["pacing", "original, \(Amount.decimal(speed))x"]) }
        let estimate = Amount.time(plan.estimate) + (plan.isMeasured ? ", by earlier replays" : ", a guess")
        facts.append(["takes", "about \(estimate)"])
        var parts = [Console.table(facts)]
        if !plan.handlers.isEmpty {
            let head = ["HANDLER", "TO SEND", "DEAD", "BEFORE IT", "HANDLED", "WAITING (left alone)"]
            let rows = plan.handlers.map { counts in
                [counts.handler]
                    + [counts.planned, counts.dead, counts.new, counts.handled, counts.pending]
                    .map(Amount.count)
            }
            parts.append(Console.table([head] + rows))
        }
        if !plan.categories.isEmpty {
            let rows = plan.categories.map { [Amount.count($0.count), $0.name] }
            parts.append(Console.table([["COUNT", "CATEGORY"]] + rows))
        }
        if !plan.sample.isEmpty {
            let rows = plan.sample.map { stored in
                let message = stored.message
                return [
                    HandlersCommand.time(message.receivedAtMicroseconds), message.messageKey.description,
                    message.deviceKey.description, message.category,
                    Amount.bytes(Int64(message.data?.count ?? 0)),
                ]
            }
            parts.append(Console.table([["RECEIVED", "MESSAGE", "DEVICE", "CATEGORY", "DATA"]] + rows))
        }
        return parts.joined(separator: "\n\n")
    }
}
