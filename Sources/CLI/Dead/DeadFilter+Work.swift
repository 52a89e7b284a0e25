import MessageStore
import Postgres
import Resources
import Vocabulary

extension DeadFilter {
    /// Works through the matching dead letters in batches, with a progress bar.
    ///
    /// Deliveries that die meanwhile are left out. `before` is told how many there are before anything is done, and may
    /// throw.
    ///
    /// - Throws: A usage error without a filter, a negative answer for an unknown handler, and what the database
    ///   throws.
    func work(
        _ options: CommonOptions,
        _ context: CommandContext,
        all: Bool,
        _ fate: DeadLetters.Fate,
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
            let action = BulkAction(.dead(fate, chosen), total: total, by: author)
            context.console.message("\(verb) \(try await action.run(over: connection, verb, context.console))")
        }
    }

    /// Throws a usage error for an empty filter without `--all`.
    func requireSome(all: Bool) throws(CommandFailure) {
        guard all || !isEmpty else {
            throw CommandFailure(.usage, "give a filter (--handler, --group, --category, …), or --all")
        }
    }
}

extension BulkAction {
    /// Runs the action with a progress bar.
    func run(
        over connection: PostgresConnection,
        _ verb: String,
        _ console: Terminal
    ) async throws(PostgresError) -> Int {
        let bar = ProgressBar(verb, on: console)
        defer { bar.clear() }
        return try await run(over: connection) { bar.show(Int64($0), of: Int64(total)) }
    }
}
