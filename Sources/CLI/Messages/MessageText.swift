import Querying
import Resources
import UpstreamKit
import Vocabulary

/// The text of a message with everything known about it.
struct MessageText {
    private let detail: MessageDetail
    private let console: Terminal

    init(_ detail: MessageDetail, _ console: Terminal) {
        (self.detail, self.console) = (detail, console)
    }

    func show() {
        var facts = Self.facts()
        facts.add("message_key", detail.messageKey.description)
        let stored = detail.stored
        if let stored {
            Self.add(stored, to: &facts)
        } else {
            facts.add("body", "gone: its day is past retention.messages")
            if let ledger = detail.ledger { facts.add("received_at", ShownTime.short(ledger.receivedAt)) }
        }
        if let other = detail.conflictsWith {
            facts.add("released", "a conflict with \(other)")
        } else {
            facts.add("fingerprint", detail.ledger?.fingerprint?.description ?? "no longer in the ledger")
        }
        console.facts(facts)
        if let stored { Self.showBody(stored, console) }
        section("deliveries", detail.deliveries, none: "none waiting") { row in
            let lease = row.leaseUntil.map { "leased by \(row.leaseOwner ?? "?") until \(ShownTime.short($0))" }
            let state = lease ?? "next attempt at \(ShownTime.short(row.nextAttemptAt))"
            return [row.handler, "\(row.attempts) failed", state, row.lastError ?? ""]
        }
        section("dead letters", detail.deadLetters, none: "none") { row in
            let died = row.diedAt.map { "died \(ShownTime.short($0))" } ?? ""
            return [row.handler, "\(row.attempts) attempts", died, row.lastError ?? ""]
        }
        section("attempts", detail.attempts, none: "none kept (retention.attempts)") { row in
            let took = row.duration.map { "\(Amount.time($0.inSeconds)) " } ?? ""
            return [
                row.handler, "\(row.attempt). \(row.outcome)",
                "\(ShownTime.short(row.startedAt)) \(took)on \(row.worker)",
                row.errorGroup ?? "",
            ]
        }
        section(detail.hasMoreConflicts ? "conflicts (the latest)" : "conflicts", detail.conflicts, none: "none") {
            row in
            let release = row.releasedAt.map { "released \(ShownTime.short($0))" } ?? "not released"
            return [
                row.fingerprint.description, "\(row.timesSeen) seen", "last \(ShownTime.short(row.lastSeenAt))",
                release,
            ]
        }
        Self.show(
            "duplicates",
            "not recorded for each message; upstream_messages_total{outcome=\"duplicate\"} counts them",
            console
        )
    }

    /// An empty list whose values align with those of other lists about messages.
    static func facts() -> FactList { FactList(nameWidth: 14) }

    static func show(_ name: String, _ value: String, _ console: Terminal) {
        var facts = facts()
        facts.add(name, value)
        console.facts(facts)
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

    /// Prints `data` and `extra`, indented.
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
