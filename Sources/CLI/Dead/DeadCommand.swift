import ArgumentParser
import MessageStore
import Postgres
import Replaying
import Resources
import UpstreamKit
import Vocabulary

struct DeadCommand: DescribedCommand {
    static let manual = """
        dead: Shows dead letters; retries or discards them.
          upstream-worker dead groups
          upstream-worker dead list --handler billing --since 1h
          upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker dead retry --handler billing --group "webhook status 503"
          upstream-worker dead discard --handler legacy --yes
        """
    static let subcommands: Subcommands = [
        ListCommand<DeadLetter>.self, DeadShow.self, DeadGroups.self, DeadRetry.self, DeadDiscard.self,
    ]
}

extension DeadLetter: ListedRow {
    typealias Options = DeadFilter

    static let most = Int.max
    static let none = "no dead letters match"
    static let manual = """
        list: Shows dead letters, the latest first.
          upstream-worker dead list --handler billing --since 1h
          upstream-worker dead list --group "webhook status 503" --json
          upstream-worker dead list --columns died_at,message_key,error --reverse
        """

    static func page(_ asked: ListRequest<Self>, _ connection: PostgresConnection) async throws -> [Self] {
        try await DeadLetters(connection).list(asked.filter, after: asked.cursor, limit: asked.limit)
    }
}

struct DeadShow: ProgramCommand {
    static let manual = """
        show: Shows one message's dead letters with the whole error; exit code 1 if it has none.
          upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001 --json
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message's key.") var message: String
    @OptionGroup var format: TextFormatOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let key = try MessageKey(message, for: "dead show")
        let letters = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            var filter = DeadLetterFilter()
            filter.messageKeys = [key]
            return try await DeadLetters(connection).list(filter, limit: 1_000)
        }
        guard !letters.isEmpty else { throw CommandFailure(.negative, "this message has no dead letter") }
        if format.json { return try context.console.show(json: letters) }
        for letter in letters {
            context.console.facts(FactList(letter.facts))
            context.console.data("")
        }
    }
}

struct DeadGroups: ProgramCommand {
    static let manual = """
        groups: Counts dead letters by their error.
          upstream-worker dead groups
          upstream-worker dead groups --handler billing --since 1d --json
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @OptionGroup var output: ListOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let list = RowList<DeadLetterGroup>(none: "no dead letters match")
        try output.check(list, context.console)
        let asked = try filter.asked()
        let groups = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            try await DeadLetters(connection).groups(asked.judged(connection))
        }
        try context.console.show(groups, output, list)
    }
}

struct DeadRetry: ProgramCommand {
    static let manual = """
        retry: Queues dead letters for their handlers again, with a fresh count of attempts.
          upstream-worker dead retry --handler billing --group "webhook status 503"
          upstream-worker dead retry --handler billing --rate 100/s
          upstream-worker dead retry --handler billing --dry-run
          upstream-worker dead retry --all --yes

        Asks before it retries more than 100.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Flag(help: "All dead letters; needed where no filter is given.") var all = false
    @Option(
        help: .value("n/s", "So many become due per second, in order of arrival; without it all at once."),
        transform: { try ReplayPace.rate($0, "/s") }
    )
    var rate: Double?
    @Flag(help: "Only show how many of which error group; change nothing.") var dryRun = false
    @Flag(help: "Do not ask for confirmation, which more than 100 need.") var yes = false
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        try filter.requireSome(all: all)
        if dryRun { return try await plan(context) }
        let console = context.console
        let rate = rate.map(RetryRate.init)
        try await filter.work(options, context, all: all, .retry, rate, verb: "retried", by: reason.author) { total in
            if let refusal = rate?.refusal(of: total) { throw CommandFailure(.usage, "at this --rate \(refusal)") }
            try console.confirmMany(total, "Retry \(Amount.count(total)) dead letters?", yes: yes)
        }
    }

    private func plan(_ context: CommandContext) async throws {
        let asked = try filter.asked()
        let groups = try await options.withConnection(context) { connection in
            try await KnownHandlers.require(filter.handler, connection)
            let letters = DeadLetters(connection)
            return try await letters.groups(letters.frozen(asked.judged(connection)))
        }
        if !groups.isEmpty {
            let cells = groups.map { [String($0.count), $0.handler, $0.group] }
            context.console.table(TextTable(["COUNT", "HANDLER", .init("ERROR GROUP", minimum: 14)], cells))
        }
        let total = groups.reduce(0) { $0 + $1.count }
        context.console.message("would retry \(total); nothing was changed")
    }
}

struct DeadDiscard: ProgramCommand {
    static let manual = """
        discard: Deletes dead letters; the messages themselves stay.
          upstream-worker dead discard --handler legacy
          upstream-worker dead discard --handler legacy --until 30d --yes
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Flag(help: "All dead letters; needed where no filter is given.") var all = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "Do not ask for confirmation.") var yes = false

    func run(in context: CommandContext) async throws {
        try context.console.confirm("Delete these dead letters?", yes: yes, because: "dead discard deletes")
        try await filter.work(options, context, all: all, .discard, verb: "discarded", by: reason.author)
    }
}

extension HandlingOptions<DeadLetterFilter> {
    /// Works through the matching dead letters in batches, with a progress bar.
    ///
    /// Deliveries that die meanwhile are left out. `before` is told how many there are before anything is done.
    func work(
        _ options: CommonOptions,
        _ context: CommandContext,
        all: Bool,
        _ fate: DeadLetters.Fate,
        _ rate: RetryRate? = nil,
        verb: String,
        by author: AuditAuthor,
        before: (Int) throws -> Void = { _ in }
    ) async throws {
        try requireSome(all: all)
        let asked = try asked()
        try await options.withConnection(context) { connection in
            try await KnownHandlers.require(handler, connection)
            let letters = DeadLetters(connection)
            let chosen = try await letters.frozen(asked.judged(connection))
            let total = try await letters.count(chosen)
            try before(total)
            let action = BulkAction(.dead(fate, chosen, rate), total: total, by: author)
            let done = try await action.run(over: connection, verb, context.console)
            let last = rate.map { "; the last is due in \(Amount.time($0.time(of: done).inSeconds))" } ?? ""
            context.console.message("\(verb) \(done)\(last)")
        }
    }
}

extension BulkAction {
    func run(over connection: PostgresConnection, _ verb: String, _ console: Terminal) async throws -> Int {
        let bar = ProgressBar(verb, on: console)
        defer { bar.clear() }
        return try await run(over: connection) { bar.show(Int64($0), of: Int64(total)) }
    }
}
