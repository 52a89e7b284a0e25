import ArgumentParser
import MessageStore

struct DeliveriesRetryNow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry-now",
        abstract: "Makes deliveries due at once that wait for their next attempt.",
        discussion: """
            Examples:
              upstream-worker deliveries retry-now --handler billing --dry-run
              upstream-worker deliveries retry-now --handler billing --reason "fixed"
              upstream-worker deliveries retry-now --group "webhook status 503"
              upstream-worker deliveries retry-now --all --yes

            Attempts are counted as before. What a worker has in hand is left alone, and
            an open circuit breaker still holds a handler's deliveries back until its
            next probe: see `handlers list`.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var action: DeliveriesAction

    func run(in context: CommandContext) async throws {
        try await action.run(.retryNow, words: ("Retry", "made due"), options, context)
    }
}

struct DeliveriesCancel: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Gives waiting deliveries up: they become dead letters.",
        discussion: """
            Examples:
              upstream-worker deliveries cancel --handler billing --dry-run
              upstream-worker deliveries cancel --handler billing --since 1d --yes
              upstream-worker dead retry --group "cancelled by operator"   # undo

            They are dead letters of the group "cancelled by operator", with who and why
            as their error, until they are retried, discarded, or expire. What a worker
            has in hand is left alone; the messages stay.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var action: DeliveriesAction

    func run(in context: CommandContext) async throws {
        try await action.run(.cancel, words: ("Cancel", "cancelled"), options, context)
    }
}
