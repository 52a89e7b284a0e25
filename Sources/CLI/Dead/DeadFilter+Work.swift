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
    ///   - verb: What happens to them, in the past tense.
    ///   - step: Works on some of them and says on how many.
    /// - Throws: A usage error without a filter, and what the database throws.
    func work(
        _ options: CommonOptions,
        _ context: CommandContext,
        all: Bool,
        verb: String,
        _ step: (DeadLetters, DeadLetterFilter) async throws -> Int
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
            var done = 0
            while case let count = try await step(letters, chosen), count > 0 {
                done += count
                bar.show(Int64(done), of: Int64(total))
            }
            bar.clear()
            context.console.message("\(verb) \(done)")
        }
    }
}
