import Foundation

/// The emulator's counts of a run.
package struct Tally: Sendable, Equatable, Encodable {
    package var connections = 0
    package var bound = 0
    package var open = 0
    package var sent = 0
    /// Copies written, including redeliveries and duplicates.
    package var deliveries = 0
    /// Messages acked at least once, on a connection that delivered them.
    package var acked = 0
    /// Copies acked on their own connection.
    package var ackedCopies = 0
    package var unackedCopies = 0
    package var doubleAcks = 0
    package var wrongConnectionAcks = 0
    /// Acks for an id that was never sent, or with another `to` than the message's `from`.
    package var unknownAcks = 0
    package var unwantedAcks = 0
    /// Texts inside `gcm` that are not acks.
    package var malformedAcks = 0
    /// Stanzas that a receiver has no reason to send.
    package var unexpectedStanzas = 0
    /// Streams that the peer broke: bad XML, an end without a reason, plaintext where TLS was expected.
    package var brokenStreams = 0
    /// Connections that the peer ended properly: the stream's closing tag, then TLS's close_notify.
    package var orderlyEnds = 0
    package var streamErrors = 0
    package var refusals = 0
    /// Messages that clients sent to the workers of their own account.
    package var relayed = 0
    package var pings = 0
    /// The first 20 violations in words, without ids, tokens or payload.
    package var violations: [String] = []

    package var neverAcked: Int { sent - acked }

    /// Whether every message was acked, each copy at most once and on its own connection, and nothing else came.
    package var isClean: Bool { problems.isEmpty }

    package var problems: [String] {
        let counts: [(Int, String)] = [
            (neverAcked, "messages never acked"), (unackedCopies, "copies not acked on an open connection"),
            (doubleAcks, "double acks"), (wrongConnectionAcks, "acks on a wrong connection"),
            (unknownAcks, "acks for unknown ids or senders"), (unwantedAcks, "acks for what must not be acked"),
            (malformedAcks, "malformed acks"), (unexpectedStanzas, "unexpected stanzas"),
            (brokenStreams, "broken streams"),
        ]
        return counts.filter { $0.0 != 0 }.map { "\($0.0) \($0.1)" }
    }

    package var summary: String {
        var lines = [
            "connections  \(connections) accepted, \(bound) bound, \(open) open",
            "messages     \(sent) sent in \(deliveries) deliveries",
            "acks         \(acked) messages, \(ackedCopies) copies",
        ]
        if refusals > 0 { lines.append("refused      \(refusals) sign-ins") }
        lines.append(
            isClean
                ? "clean        every message was acked, each copy once at most, on its own connection"
                : "NOT CLEAN    " + problems.joined(separator: ", ")
        )
        return (lines + violations.map { "             \($0)" }).joined(separator: "\n")
    }

    /// One JSON object with every count, `neverAcked` and `isClean`.
    package var json: String {
        guard let counts = try? JSONEncoder().encode(self),
            var object = try? JSONSerialization.jsonObject(with: counts) as? [String: Any]
        else { return "{}" }
        (object["neverAcked"], object["isClean"]) = (neverAcked, isClean)
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        return (try? JSONSerialization.data(withJSONObject: object, options: options))
            .map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
