import ArgumentParser
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `messages show`.
struct MessagesShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one message with its deliveries, dead letters and conflicts; exit code 1 where there is none.",
        discussion: """
            Examples:
              upstream-worker messages show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker messages show order-4711 --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its message_key, or its message_id.")
    var message: String
    @Flag(help: "One JSON array instead of text.")
    var json = false
    @Flag(help: "Show the registration token. It is a credential.")
    var reveal = false
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        let found = try await options.withReader(timeout: reading.timeout.microseconds) { connection in
            try await MessageLookup(connection).find(message)
        }
        guard !found.isEmpty else { throw CommandFailure(.negative, "no message has this key or id") }
        if json {
            var rows = RowOutput(.json, tokens: reveal)
            for detail in found {
                try rows.append(object: detail.json(tokens: reveal, isForTerminal: Screen.isTerminal))
            }
            return try rows.finish()
        }
        for (index, detail) in found.enumerated() {
            if index > 0 { Console.data("") }
            for line in DetailText(detail, tokens: reveal).lines() { Console.data(line) }
        }
        if found.count > 1 { Console.message("\(found.count) messages have this id, of several senders or devices") }
    }
}

/// A message with everything known of it, for people.
struct DetailText {
    private let detail: MessageDetail
    private let tokens: Bool

    init(_ detail: MessageDetail, tokens: Bool) {
        (self.detail, self.tokens) = (detail, tokens)
    }

    func lines() -> [String] {
        var lines = head()
        if let row = detail.row, let stored = detail.page.message(row) {
            lines += Self.body(stored)
        }
        lines += section("deliveries", detail.deliveries, none: "none waiting") { row in
            let lease = row.leaseUntil.map { "leased by \(row.leaseOwner ?? "?") until \(ShownTime.short($0))" }
            let state = lease ?? "next attempt at \(ShownTime.short(row.nextAttemptAt))"
            return [row.handler, "\(row.attempts) failed", state, row.lastError ?? ""]
        }
        lines += section("dead letters", detail.deadLetters, none: "none") { row in
            let died = row.diedAt.map { "died \(ShownTime.short($0))" } ?? ""
            return [row.handler, "\(row.attempts) attempts", died, row.lastError ?? ""]
        }
        lines += section("conflicts", detail.conflicts, none: "none") { row in
            let release = row.releasedAt.map { "released \(ShownTime.short($0))" } ?? "not released"
            return [
                row.fingerprint.description, "\(row.timesSeen) seen", "last \(ShownTime.short(row.lastSeenAt))",
                release,
            ]
        }
        lines.append(
            "duplicates    not recorded for each message; upstream_messages_total{outcome=\"duplicate\"} counts them"
        )
        return lines
    }

    private func head() -> [String] {
        var pairs = [("message_key", detail.messageKey.description)]
        if let row = detail.row, let stored = detail.page.message(row) {
            let message = stored.message
            pairs += [
                ("received_at", ShownTime.full(message.receivedAtMicroseconds)), ("sender_id", message.senderID),
                ("message_id", message.messageID), ("category", message.category),
                ("device_key", message.deviceKey.description),
                ("token", tokens ? message.registrationToken.rawValue : "(masked; --reveal shows it)"),
                ("message_type", message.messageType ?? "-"), ("stanza_from", stored.stanzaFrom ?? "-"),
            ]
        } else {
            pairs.append(("body", "gone: its day is past retention.messages"))
            if let ledger = detail.ledger { pairs.append(("received_at", ShownTime.full(ledger.receivedAt))) }
        }
        if let other = detail.conflictsWith {
            pairs.append(("released", "a conflict with \(other)"))
        } else {
            let ledger = detail.ledger.map { $0.fingerprint.description } ?? "not in the ledger any more"
            pairs.append(("fingerprint", ledger))
        }
        return pairs.map { Self.pair($0, $1) }
    }

    static func pair(_ name: String, _ value: String) -> String {
        name + String(repeating: " ", count: max(1, 14 - name.count)) + TerminalText.escape(value)
    }

    /// `data` and `extra`, laid out.
    static func body(_ stored: StoredMessage) -> [String] {
        var lines: [String] = []
        if let data = stored.message.data {
            let note = stored.isDataRaw ? ", in data_raw: jsonb would refuse it" : ""
            lines.append(pair("data", Amount.bytes(Int64(data.count)) + note))
            lines += JSONIndent.lines(data).map { "  " + $0 }
        } else {
            lines.append(pair("data", "-"))
        }
        if let extra = stored.message.extra {
            lines.append(pair("extra", Amount.bytes(Int64(extra.count))))
            lines += JSONIndent.lines(extra).map { "  " + $0 }
        }
        return lines
    }

    private func section<Row>(_ title: String, _ rows: [Row], none: String, _ cells: (Row) -> [String]) -> [String] {
        guard !rows.isEmpty else { return [Self.pair(title, none)] }
        var table = TextTable(["", "", "", ""].map { TextTable.Column($0) })
        for row in rows { table.append(cells(row)) }
        return [Self.pair(title, String(rows.count))] + table.lines(width: nil).dropFirst().map { "  " + $0 }
    }
}
