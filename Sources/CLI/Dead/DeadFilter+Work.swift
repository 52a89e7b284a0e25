import MessageStore
import Worker

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
        let filter = try make()
        try await options.withConnection(context) { connection in
            try await KnownHandlers.require(handler, connection)
            let letters = DeadLetters(connection)
            let chosen = try await letters.judge(filter, freezing: true)
            let total = try await letters.count(chosen)
            try before(total)
            let bar = ProgressBar(verb, on: context.console)
            var progress = DeadLetters.Progress(total: total)
            while try await letters.step(fate, chosen, &progress, by: author) > 0 {
                bar.show(Int64(progress.done), of: Int64(total))
            }
            bar.clear()
            context.console.message("\(verb) \(progress.done)")
        }
    }
    /// Throws a usage error for an empty filter without `--all`.
    func requireSome(all: Bool) throws(CommandFailure) {
        guard all || !isEmpty else {
            throw CommandFailure(.usage, "give a filter (--handler, --group, --category, …), or --all")
        }
    }
}
