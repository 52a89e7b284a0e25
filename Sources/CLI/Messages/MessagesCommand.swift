import ArgumentParser

struct MessagesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages",
        abstract: "Looks up, follows and exports stored messages.",
        discussion: """
            Examples:
              upstream-worker messages list --category com.example.orders --since 2h
              upstream-worker messages list --since 1d --where 'data.order.total>100' \\
                --where 'data.coupon exists'
              upstream-worker messages list --from-token-file token.txt --json
              upstream-worker messages show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker messages tail -f --category com.example.orders
              upstream-worker messages export --since 2026-01-01 --until 2026-02-01 \\
                --output january.ndjson
            """,
        subcommands: [MessagesList.self, MessagesShow.self, MessagesTail.self, MessagesExport.self]
    )
}
