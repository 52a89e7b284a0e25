import ArgumentParser

struct DeliveriesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliveries",
        abstract: "Shows what waits for handlers; makes it due at once, or gives it up.",
        discussion: """
            Examples:
              upstream-worker deliveries list
              upstream-worker deliveries list --handler billing --since 1h
              upstream-worker deliveries retry-now --handler billing
              upstream-worker deliveries cancel --category com.example.legacy
            """,
        subcommands: [DeliveriesList.self, DeliveriesRetryNow.self, DeliveriesCancel.self]
    )
}
