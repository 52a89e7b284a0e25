import ArgumentParser
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `conflicts show`.
struct ConflictsShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows the contents that came under one message's key; exit code 1 where there is no conflict."
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that they share.")
    var message: String
    @Flag(help: "One JSON array instead of text.")
    var json = false
    @Flag(help: "Show registration tokens. They are credentials.")
    var reveal = false
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        let key = try ConflictsCommand.key(message)
        let (detail, conflicts) = try await options.withReader(timeout: reading.timeout.microseconds) { connection in
            var filter = MessageFilter()
            filter.messageKey = key
            let rows = try await ConflictQuery(filter: filter, limit: 1_000).rows(connection)
            return (try await MessageLookup(connection).detail(key), rows)
        }
        guard !conflicts.isEmpty else { throw CommandFailure(.negative, "this message has no conflict") }
        if json {
            var output = RowOutput(.json, tokens: reveal)
            for row in conflicts {
                try output.append(object: row.json(tokens: reveal, isForTerminal: Screen.isTerminal))
            }
            return try output.finish()
        }
        if let detail, let row = detail.row, let stored = detail.page.message(row) {
            show("stored", stored, [("fingerprint", stored.fingerprint.description)])
        } else {
            Console.data("stored        its body is past retention.messages")
        }
        for row in conflicts {
            Console.data("")
            let release = row.releasedAt.map { "\(ShownTime.full($0)) by \(row.releasedBy ?? "?")" } ?? "no"
            show(
                "conflict",
                row.copy,
                [
                    ("fingerprint", row.fingerprint.description), ("times_seen", String(row.timesSeen)),
                    ("last_seen_at", ShownTime.full(row.lastSeenAt)), ("released", release),
                    ("release_key", row.releaseKey.description),
                ]
            )
        }
    }

    private func show(_ title: String, _ stored: StoredMessage, _ more: [(String, String)]) {
        let message = stored.message
        let pairs =
            [
                (title, message.messageKey.description),
                ("received_at", ShownTime.full(message.receivedAtMicroseconds)),
                ("sender_id", message.senderID), ("message_id", message.messageID), ("category", message.category),
                ("device_key", message.deviceKey.description),
                ("token", reveal ? message.registrationToken.rawValue : "(masked; --reveal shows it)"),
                ("message_type", message.messageType ?? "-"),
            ] + more
        for (name, value) in pairs { Console.data(DetailText.pair(name, value)) }
        for line in DetailText.body(stored) { Console.data(line) }
    }
}
