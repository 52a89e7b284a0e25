import MessageStore
import Worker

extension DeadFilter {
    /// Works through the dead letters that match, part by part, with a progress bar.
    ///
    /// Deliveries that die meanwhile are not part of it.
    ///
    /// - Parameters:
    ///   - options: The configuration's options.
    ///   - context: What the command gets from outside.
    ///   - all: Whether an empty filter may match everything.
    ///   - fate: What becomes of them.
    ///   - verb: The same in the past tense.
    ///   - author: Who, and why.
    /// - Throws: A usage error without a filter, and what the database throws.
    func work(
        _ options: CommonOptions,
        _ context: CommandContext,
        all: Bool,
        _ fate: DeadLetters.Fate,
        verb: String,
        by author: AuditAuthor
    ) async throws {
        guard all || !isEmpty else {
            throw CommandFailure(.usage, "give a filter (--handler, --group, --category, …), or --all")
        }
        let filter = try make()
        try await options.withConnection(context) { connection in
            let letters = DeadLetters(connection)
            let chosen = try await letters.judge(filter, freezing: true)
            let total = try await letters.count(chosen)
            let bar = ProgressBar(verb, on: context.console)
            var progress = DeadLetters.Progress(total: total)
            while try await letters.step(fate, chosen, &progress, by: author) > 0 {
                bar.show(Int64(progress.done), of: Int64(total))
            }
            bar.clear()
            context.console.message("\(verb) \(progress.done)")
        }
    }
}
