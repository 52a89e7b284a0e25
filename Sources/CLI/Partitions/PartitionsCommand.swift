import ArgumentParser

struct PartitionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "partitions",
        abstract: "Shows the daily partitions and what retention does with them; runs retention; sets its policy.",
        discussion: """
            Examples:
              upstream-worker partitions plan
              upstream-worker partitions plan --json
              upstream-worker partitions run
              upstream-worker partitions run --force   # also days that deliveries need
              upstream-worker partitions policy        # how long data is kept

            `run` creates the partitions from yesterday to a week ahead, drops days past retention.messages with conflicts \
            and quarantined stanzas of that age, deletes dead letters past retention.dead_letters, and deletes ledger rows \
            past retention.dedupe_window. Workers do the same once a day, a while after midnight UTC. The policy in the \
            database and the database's clock decide.
            """,
        subcommands: [PartitionsPlan.self, PartitionsRun.self, PartitionsPolicy.self]
    )
}
