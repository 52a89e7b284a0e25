import Foundation

/// The emulator's account of a run.
package struct Tally: Sendable, Equatable, Codable {
    /// Connections accepted.
    package var connections = 0
    /// Connections that were bound.
    package var bound = 0
    /// Connections open now.
    package var open = 0
    /// Messages with an id of their own that were sent and may be acked.
    package var sent = 0
    /// Copies of messages written, redeliveries and duplicates among them.
    package var deliveries = 0
    /// Messages acked at least once, on a connection that delivered them.
    package var acked = 0
    /// Copies acked on their own connection.
    package var ackedCopies = 0
    /// Copies on open connections whose ack has not come.
    package var unackedCopies = 0
    /// Acks for a copy that was acked before.
    package var doubleAcks = 0
    /// Acks on a connection that did not deliver the message.
    package var wrongConnectionAcks = 0
    /// Acks for an id that was never sent, or with another `to` than the message's `from`.
    package var unknownAcks = 0
    /// Acks for what must not be acked.
    package var unwantedAcks = 0
    /// Texts inside `gcm` that are no ack.
    package var malformedAcks = 0
    /// Stanzas that a receiver has no reason to send.
    package var unexpectedStanzas = 0
    /// Streams that the peer broke: bad XML, an end without a reason, plaintext where TLS was expected.
    package var brokenStreams = 0
    /// Connections that the peer ended as it should: the stream's closing tag, then TLS's close_notify.
    package var orderlyEnds = 0
    /// Stream errors that peers sent, as they must for bad XML.
    package var streamErrors = 0
    /// Credentials refused.
    package var refusals = 0
    /// Messages that clients sent to the workers of their own account.
    package var relayed = 0
    /// XEP-0199 pings that peers sent.
    package var pings = 0
    /// The first violations in words, 20 at most; without ids, tokens or payload.
    package var violations: [String] = []

    package init() {}

    /// Messages that were sent and never acked.
    package var neverAcked: Int { sent - acked }

    /// Whether each message was acked, each delivered copy once at most, on its own connection, and nothing else came.
    package var isClean: Bool { problems.isEmpty }

    /// What is not as it must be, one phrase each.
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

    /// A summary for people.
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
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        struct Report: Encodable {
            var tally: Tally
            enum CodingKeys: CodingKey { case neverAcked, isClean }
            func encode(to encoder: any Encoder) throws {
                try tally.encode(to: encoder)
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(tally.neverAcked, forKey: .neverAcked)
                try container.encode(tally.isClean, forKey: .isClean)
            }
        }
        guard let data = try? encoder.encode(Report(tally: self)) else { return "{}" }
        return String(decoding: data, as: UTF8.self)
    }
}
