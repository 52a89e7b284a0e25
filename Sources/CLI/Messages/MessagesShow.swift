import ArgumentParser
import Querying
import Resources
import UpstreamKit
import Vocabulary

struct MessagesShow: ProgramCommand {
    static let manual = """
        show: Shows one message with its deliveries, dead letters and conflicts; exit code 1 if there is none.
          upstream-worker messages show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker messages show 7d1c0a52          # the beginning of a key
          upstream-worker messages show order-4711 --json
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its message_key or the beginning of that (6 digits or more), or its message_id.")
    var message: String
    @OptionGroup var format: TextFormatOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let (found, isCut) = try await options.withReader(context, timeout: reading.timeout.microseconds) {
            try await MessageLookup($0).find(message)
        }
        guard !found.isEmpty else {
            throw CommandFailure(
                .negative,
                "no message has this key or id, or a key that begins so: `messages list` finds messages by other values"
            )
        }
        let console = context.console
        let sight = tokens.sight
        if format.json { return try console.show(json: found.map { $0.content(to: sight) }) }
        for (index, detail) in found.enumerated() {
            if index > 0 { console.data("") }
            MessageText(detail.content(to: sight), console).show()
        }
        if isCut { console.message("there may be more: `messages list` has them all") }
        if found.count > 1 {
            console.message(
                "\(found.count) messages have this id, from several senders or devices, or a key that begins so"
            )
        }
    }
}

struct MessageText {
    private let detail: MessageDetail
    private let console: Terminal

    init(_ detail: MessageDetail, _ console: Terminal) {
        (self.detail, self.console) = (detail, console)
    }

    func show() {
        var facts = FactList([("message_key", detail.messageKey.description)], nameWidth: Self.nameWidth)
        let stored = detail.stored
        if let stored {
            Self.add(stored, to: &facts)
        } else {
            facts.add("body", "gone: its day is past retention.messages")
            if let ledger = detail.ledger { facts.add("received_at", ledger.receivedAt.shown) }
        }
        if let other = detail.conflictsWith {
            facts.add("released", "a conflict with \(other)")
        } else {
            facts.add("fingerprint", detail.ledger?.fingerprint?.description ?? "no longer in the ledger")
        }
        console.facts(facts)
        if let stored { Self.showBody(stored, console) }
        section("deliveries", detail.deliveries, none: "none waiting") { row in
            let lease = row.leaseUntil.map { "leased by \(row.leaseOwner ?? "?") until \($0.shown)" }
            let state = lease ?? "next attempt at \(row.nextAttemptAt.shown)"
            return [row.handler, "\(row.attempts) failed", state, row.lastError ?? ""]
        }
        section("dead letters", detail.deadLetters, none: "none") { row in
            let died = row.diedAt.map { "died \($0.shown)" } ?? ""
            return [row.handler, "\(row.attempts) attempts", died, row.lastError ?? ""]
        }
        section("attempts", detail.attempts, none: "none kept (retention.attempts)") { row in
            let took = row.duration.map { "\(Amount.time($0.inSeconds)) " } ?? ""
            return [
                row.handler, "\(row.attempt). \(row.outcome)",
                "\(row.startedAt.shown) \(took)on \(row.worker)",
                row.errorGroup ?? "",
            ]
        }
        section(detail.hasMoreConflicts ? "conflicts (the latest)" : "conflicts", detail.conflicts, none: "none") {
            row in
            let release = row.releasedAt.map { "released \($0.shown)" } ?? "not released"
            return [row.fingerprint.description, "\(row.timesSeen) seen", "last \(row.lastSeenAt.shown)", release]
        }
        Self.show(
            "duplicates",
            "not recorded for each message; upstream_messages_total{outcome=\"duplicate\"} counts them",
            console
        )
    }

    /// The width by which the values of all lists about messages align.
    static let nameWidth = 14

    static func show(_ name: String, _ value: String, _ console: Terminal) {
        console.facts(FactList([(name, value)], nameWidth: nameWidth))
    }

    /// Adds the columns of a stored message, but for its key and payload.
    static func add(_ stored: StoredMessage, to facts: inout FactList) {
        for column in MessageColumn.allCases where column != .messageKey && column.traits.secrecy != .payload {
            if column == .registrationToken {
                facts.add("token", stored.text(column) ?? "(masked; --reveal shows it)")
            } else {
                facts.add(column.name, stored.cell(column))
            }
        }
    }

    static func showBody(_ stored: StoredMessage, _ console: Terminal) {
        if let data = stored.shownData {
            let note = stored.isDataRaw ? ", in data_raw: jsonb would refuse it" : ""
            show("data", Amount.bytes(Int64(data.count)) + note, console)
            for line in JSONIndent.lines(data) { console.data("  " + line) }
        } else {
            show("data", "-", console)
        }
        if let extra = stored.bytes(.extra) {
            show("extra", Amount.bytes(Int64(extra.count)), console)
            for line in JSONIndent.lines(extra) { console.data("  " + line) }
        }
    }

    private func section<Row>(_ title: String, _ rows: [Row], none: String, _ cells: (Row) -> [String]) {
        guard !rows.isEmpty else { return Self.show(title, none, console) }
        Self.show(title, String(rows.count), console)
        let table = TextTable(["", .init("").ofStates, "", .init("", minimum: 10)], rows.map(cells))
        let width = console.width.map { $0 - 2 }
        for line in table.lines(width: width, hasHeader: false, isColoured: console.isColoured) {
            console.data("  " + line)
        }
    }
}
