import ArgumentParser
import Postgres
import Querying
import Resources
import Vocabulary

struct MessagesTail: ProgramCommand {
    static let manual = """
        tail: Shows the latest messages, and with -f new ones as they arrive, until it is interrupted.
          upstream-worker messages tail
          upstream-worker messages tail -f --category com.example.orders
          upstream-worker messages tail -f --where 'data.level=error' --ndjson |
            jq .data.text

        With --until it ends once that time has passed, and --overlap after it: at once where it is in the past.

        A message is shown once its transaction has committed, so messages may be shown out of order: every second
        the last two seconds are read again, every five seconds the whole --overlap; no message is shown twice. A
        message that commits later than --overlap after it was received is missed. After a pause or a database outage
        it continues from its last read, however long ago. Where it cannot (retention dropped a day meanwhile; at very
        high rates the overlap shrinks), a line on stderr names the missing time span.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Flag(name: .shortAndLong, help: "Keep showing new messages.") var follow = false
    @Option(help: "How many stored messages to begin with, up to 1000.") var limit = 10
    @Option(help: "How long after it was received a message may commit and still be shown.")
    var overlap = DurationArgument(seconds: 60)
    @Flag(exclusivity: .exclusive) var format: OutputFormat?
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (0...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 0 to 1000") }
        guard format != .json else {
            throw CommandFailure(.usage, "tail has no end, and so cannot print a JSON array: use --ndjson")
        }
        let asked = try filter.asked(context.console)
        let filter = try await withReader(context, tellsLag: false) { try await asked.judged($0) }
        let screen = { TailScreen(format, tokens: tokens.reveal, context.console) }
        guard follow else { return try await withReader(context) { _ = try await begin(filter, screen(), $0) } }
        if let until = filter.until,
            until <= (try await withReader(context, tellsLag: false) { try await $0.databaseTime() })
        {
            try await withReader(context) { _ = try await begin(filter, screen(), $0) }
            return context.console.message("--until has passed: there is nothing to follow")
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await context.interruption() }
            group.addTask { try await self.followForever(filter, context) }
            // Whichever ends first ends both.
            try await group.next()
            group.cancelAll()
        }
    }

    private func withReader<T>(
        _ context: CommandContext,
        tellsLag: Bool = true,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        try await options.withReader(context, timeout: reading.timeout.microseconds, tellsLag: tellsLag, body)
    }

    /// Shows the latest messages; returns their places.
    private func begin(
        _ filter: MessageFilter,
        _ screen: TailScreen,
        _ connection: PostgresConnection
    ) async throws -> [MessageCursor] {
        try await options.warn(of: filter, connection, screen.console)
        guard limit > 0 else { return [] }
        let places = try await MessageTail.showLatest(filter, limit: limit, connection) { try screen.show($0, $1) }
        if places.isEmpty, !follow { screen.console.message("no messages match") }
        try screen.flush()
        return places
    }

    /// Follows across database outages: messages committed meanwhile are shown afterwards.
    private func followForever(_ filter: MessageFilter, _ context: CommandContext) async throws {
        let console = context.console
        let screen = TailScreen(format, tokens: tokens.reveal, console)
        var tail: MessageTail?
        var isDown = false
        while !Task.isCancelled {
            do {
                try await withReader(context, tellsLag: tail == nil) { connection in
                    if tail == nil {
                        // Before the first messages are shown, so that none is missed in between.
                        var started = try await MessageTail(
                            filter,
                            overlap: .microseconds(overlap.microseconds),
                            connection
                        )
                        for place in try await begin(filter, screen, connection) { started.pass(place) }
                        tail = started
                    }
                    if isDown { console.message("the database is back") }
                    isDown = false
                    try await poll(&tail, screen, connection, until: filter.until)
                }
                return
            } catch let error as PostgresError
                where tail != nil
                && [.connection, .intervention, .resources, .deadline, .closed, .rollback].contains(error.failureClass)
            {
                if Task.isCancelled { return }
                if !isDown { console.message("database: \(error); waiting until it answers") }
                isDown = true
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Polls until cancelled, or until no further message of the filter can commit in time.
    private func poll(
        _ tail: inout MessageTail?,
        _ screen: TailScreen,
        _ connection: PostgresConnection,
        until end: Timestamp?
    ) async throws {
        var isToldShortened = false
        while !Task.isCancelled, var next = tail {
            // Also if the poll fails, so that no message is shown twice.
            defer { tail = next }
            let isLast = try await isOver(end, connection)
            let gap = try await next.poll(connection) { try screen.show($0, $1) }
            try screen.flush()
            switch gap {
            case .dropped(let span):
                screen.console.message(
                    "missing: messages received \(Self.text(span)) were dropped by retention during the pause"
                )
            case .unproven(let span) where !isToldShortened:
                screen.console.message(
                    "note: too many messages to look back over the whole --overlap; of those received \(Self.text(span)), "
                        + "late commits are missing"
                )
                isToldShortened = true
            default: break
            }
            if isLast { return }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Whether what commits from now on came after the end; a standby shows that once it has replayed all there is.
    private func isOver(_ end: Timestamp?, _ connection: PostgresConnection) async throws(PostgresError) -> Bool {
        guard let end, try await connection.databaseTime() >= end + overlap.duration else { return false }
        let lag = try await connection.readLag()
        return !lag.isStandby || lag.seconds == 0
    }

    private static func text(_ span: Range<Timestamp>) -> String {
        "from \(span.lowerBound.shown) to \(span.upperBound.shown)"
    }
}

final class TailScreen {
    let console: Terminal
    private let format: OutputFormat
    private let sight: Sight
    private var rows: RowOutput
    /// The fields without the device, which would leave no room for data.
    private let fields: [Field<StoredMessage>]
    private let columns: [TextTable.Column]
    /// Whether the omitted columns were named.
    private var hasTold = false

    init(_ chosen: OutputFormat?, tokens: Bool, _ console: Terminal) {
        (format, self.console) = (chosen ?? (console.output.isTerminal ? .table : .ndjson), console)
        sight = Sight(tokens: tokens, payloads: true)
        rows = RowOutput(format, tokens: tokens, to: console)
        fields = StoredMessage.tabled(tokens: tokens)
            .filter { $0.column?.isExtra == false && $0.column?.name != MessageColumn.deviceKey.name }
        columns = fields.compactMap(\.column).map { column in
            // On a narrow terminal only time and key remain.
            var column = column
            if column.name == MessageColumn.category.name { column.dropOrder = 1 }
            return column
        }
    }

    func show(_ page: MessagePage, _ row: Int) throws {
        guard format == .table else { return try rows.append(page, row) }
        let message = try page.message(row).shown(to: sight)
        // Widths of later rows are unknown, so each line is fitted to the terminal by itself.
        let table = TextTable(columns, [fields.map { $0.tableCell(message) }])
        for line in table.lines(width: console.width, hasHeader: false) { console.data(line) }
        if !hasTold { console.tell(leftOut: table.leftOut(width: console.width), way: "`messages list` has --columns") }
        hasTold = true
    }

    func flush() throws { if format != .table { try rows.flush() } }
}
