package import Querying
import UpstreamKit
import Vocabulary

// The fields of everything that the tables hold about a message.

extension MessageDetail.DeliveryRow: ShownResource {
    package static let schema = "DeliveryOf"
    package static let leavesOut = true
    package static let fields: [Field<MessageDetail.DeliveryRow>] = [
        Field("handler") { $0.handler },
        Field("attempts", about: "those that failed and count") { $0.attempts },
        Field("next_attempt_at") { $0.nextAttemptAt },
        Field("worker", about: "the worker that has it in hand, or made the last attempt") { $0.leaseOwner },
        Field("lease_until") { $0.leaseUntil },
        .words("error", \.lastError),
        Field("replay_id") { $0.replayID },
        .group("error_group", \.errorGroup),
        Field("died_at") { $0.diedAt },
    ]
}

extension AttemptRow: ShownResource {
    package static let schema = "Attempt"
    package static let about: StaticString? = "What a handler tried; kept for retention.attempts."
    package static let leavesOut = true
    package static let fields: [Field<AttemptRow>] = [
        Field("handler") { $0.handler },
        Field("attempt") { $0.attempt },
        Field("started_at") { $0.startedAt },
        Field("duration_seconds") { $0.duration?.inSeconds },
        Field("outcome") { $0.outcome },
        Field("status", about: "the HTTP status of a webhook's answer that was no success") { $0.status },
        .group("error_group", \.errorGroup),
        Field("worker") { $0.worker },
    ]
}

extension MessageDetail.LedgerRow: ShownResource {
    package static let schema = "Ledger"
    package static let leavesOut = true
    package static let fields: [Field<MessageDetail.LedgerRow>] = [
        Field("received_at") { $0.receivedAt },
        // A hash would confirm a guess at what was sent.
        Field("fingerprint") {
            $0.fingerprint
        } redact: { row, sight, _ in
            if !sight.payloads { row.fingerprint = nil }
        },
    ]
}

extension MessageDetail {
    /// Everything about the message as a reader may see it.
    package func shown(to sight: Sight, knowing tokens: [String]) -> MessageDetail {
        var detail = self
        detail.ledger = ledger?.shown(to: sight)
        detail.attempts = attempts.map { $0.shown(to: sight, knowing: tokens) }
        detail.deliveries = deliveries.map { $0.shown(to: sight, knowing: tokens) }
        detail.deadLetters = deadLetters.map { $0.shown(to: sight, knowing: tokens) }
        return detail
    }

    /// The message's JSON object on one line, with `ledger`, `deliveries`, `dead_letters`, `attempts` and `conflicts`;
    /// `more_conflicts` if some were left out.
    ///
    /// `isForTerminal` also escapes characters that a terminal may act on.
    package func json(tokens: Bool, payloads: Bool = true, isForTerminal: Bool) -> [UInt8] {
        var json = JSONWriter(isForTerminal: isForTerminal)
        json.beginObject()
        if let ledger {
            json.name("ledger")
            ledger.write(to: &json)
        }
        json.name("deliveries")
        Rows(deliveries).write(to: &json)
        json.name("dead_letters")
        Rows(deadLetters).write(to: &json)
        json.name("attempts")
        Rows(attempts).write(to: &json)
        if let conflictsWith { json.member("conflicts_with", conflictsWith.digest) }
        json.name("conflicts")
        json.beginArray()
        for conflict in conflicts {
            json.json(conflict.json(tokens: tokens, payloads: payloads, isForTerminal: isForTerminal))
        }
        json.endArray()
        if hasMoreConflicts {
            json.name("more_conflicts")
            json.bool(true)
        }
        json.endObject()
        let stored =
            storedJSON(tokens: tokens, payloads: payloads, isForTerminal: isForTerminal)
            ?? Array(#"{"message_key":"\#(messageKey)"}"#.utf8)
        return stored.dropLast() + [UInt8(ascii: ",")] + json.finish().dropFirst()
    }
}

extension QuarantineRow: ShownResource {
    package static let schema = "Stanza"
    package static let leavesOut = true
    package static let fields: [Field<QuarantineRow>] = [
        Field("id", "ID") { $0.id },
        Field("received_at", "RECEIVED") { $0.receivedAt },
        Field("times_seen", TableColumn("SEEN", dropOrder: 6)) { $0.timesSeen },
        Field("last_seen_at", TableColumn("LAST SEEN", dropOrder: 3)) { $0.lastSeenAt },
        Field("reason", "REASON") { $0.reason },
        Field("sender_id", TableColumn("SENDER", minimum: 10, dropOrder: 2, cut: .middle)) { $0.senderID },
        Field("bytes", TableColumn("BYTES", dropOrder: 1)) { $0.byteCount },
        // One of the project's own sentences.
        Field("detail", TableColumn("DETAIL", minimum: 10, dropOrder: 4)) { $0.detail },
        Field("message_id", TableColumn("MESSAGE ID", minimum: 10, dropOrder: 5, cut: .middle)) { $0.messageID },
        // A payload as a whole.
        Field("stanza_masked", about: "as text, with what looks like a token masked") { row -> String? in
            guard !row.isVerbatim, !row.stanza.isEmpty else { return nil }
            return TerminalText.escape(bytes: StanzaMask.mask(row.stanza))
        } redact: { row, sight, _ in
            if !sight.payloads { row.stanza = [] }
        },
        Field("stanza_base64", about: "as received, with `reveal=token`", secrecy: .secret) { row -> String? in
            row.isVerbatim && !row.stanza.isEmpty ? Base64.text(row.stanza) : nil
        } redact: { row, sight, _ in
            row.isVerbatim = sight.tokens
        },
    ]
}
