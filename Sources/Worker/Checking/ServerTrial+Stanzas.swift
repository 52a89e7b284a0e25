package import Probing
package import UpstreamConfiguration
import Vocabulary
import XMLWire
import XMPP
import XMPPSession

extension ProbeSequence {
    /// The steps of `check --thorough`, which may take so long together: once for each server at which a sender has an
    /// account.
    package static func trials(
        _ configuration: WorkerConfiguration,
        _ accounts: [TrialAccount],
        limit: Duration = .seconds(300)
    ) -> [ProbeSequence] {
        var seen: Set<[String]> = []
        return configuration.senders.indices.compactMap { index in
            let sender = configuration.senders[index]
            let server = [sender.domain, sender.host, String(sender.port)]
            guard sender.dialect == .xmpp, seen.insert(server).inserted else { return nil }
            let trial = ServerTrial(configuration, index: index, accounts: accounts, limit: limit)
            return ProbeSequence("server \(sender.domain)", trial.probes)
        }
    }
}

extension ServerTrial {
    private typealias Step = @Sendable (ServerTrial) async throws(Trouble) -> Probe.Result

    nonisolated fileprivate var probes: [Probe] {
        let steps: [(name: String, step: Step)] = [
            ("two accounts", { trial throws(Trouble) in try await trial.begin() }),
            ("stream management (XEP-0198)", { trial throws(Trouble) in try await trial.management() }),
            ("offline storage", { trial throws(Trouble) in try await trial.stored() }),
            ("logins while messages come", { trial throws(Trouble) in try await trial.race() }),
            ("flexible retrieval (XEP-0013)", { trial throws(Trouble) in try await trial.flexibleRetrieval() }),
            ("withdrawn presence", { trial throws(Trouble) in try await trial.withdrawal() }),
            ("a connection that dies", { trial throws(Trouble) in try await trial.loss() }),
            ("the same resource twice", { trial throws(Trouble) in try await trial.conflict() }),
            ("resumption", { trial throws(Trouble) in try await trial.resumption() }),
            ("large stanzas", { trial throws(Trouble) in try await trial.sizes() }),
            ("special characters", { trial throws(Trouble) in try await trial.characters() }),
            ("archive (XEP-0313)", { trial throws(Trouble) in try await trial.archive() }),
            ("what is left", { trial throws(Trouble) in try await trial.finish() }),
        ]
        return steps.enumerated().map { place, step in
            Probe(step.name, isNeeded: place == 0) { await self.result(of: step.step) }
        }
    }

    /// A result about messages that must all come, in order.
    nonisolated func judge(
        _ fate: Fate,
        _ what: String,
        returned: String,
        lost: String = "have devices send again what has no ack"
    ) -> Probe.Result {
        if fate.lost > 0 {
            let cause = "\(what): \(fate.lost) of \(fate.count) lost without a word"
            return .failed(cause: cause, fix: lost, status: .configuration)
        }
        if fate.returned > 0 {
            let reason = fate.condition ?? "no reason"
            let cause = "\(what): \(fate.returned) of \(fate.count) went back to their sender (\(reason))"
            return .warned(cause: cause, fix: returned)
        }
        return .passed(detail: "\(what): all came" + (fate.isInOrder ? "" : ", in another order"))
    }

    /// Sends larger and larger messages until one doesn't come.
    func sizes() async throws(Trouble) -> Probe.Result {
        func text(_ size: Int) -> String { Amount.bytes(Int64(size)) }
        let limit = configuration.limits.stanzaBytes
        let stream = try await receiver()
        let announced = await stream.news.stream?.limits.stanza
        var found = announced.map { "announced \(text($0)); " } ?? ""
        var (largest, rate) = (0, 0)
        for size in [10_000, 64_000, limit * 3 / 4, limit + 4_096, 4 * limit] where size > largest {
            let device = try await device()
            let (id, start) = (nextID(), ContinuousClock.now)
            device.send(message(id, data: "\"\(String(repeating: "x", count: size - 250))\""))
            let fate = await fate(of: [id], at: stream, within: .seconds(20))
            guard fate.came == 1 else {
                let reason = await device.news.end?.message ?? fate.condition ?? "nothing in 20 s"
                found += "one of \(text(size)) does not come (\(reason)); "
                break
            }
            (largest, rate) = (size, size * 1_000 / Int(max((ContinuousClock.now - start).microseconds / 1_000, 1)))
        }
        await stream.close()
        found += "one of \(text(largest)) comes, \(text(rate)) a second"
        guard largest > 0 else {
            return .failed(cause: found, fix: "let 10,000 bytes pass: RFC 6120 asks for that", status: .protocolError)
        }
        guard rate > 30_000 else {
            return .warned(cause: found, fix: "no limit on traffic (Prosody: no \"limits\"; ejabberd: shaper: none)")
        }
        guard largest > limit else { return .passed(detail: found) }
        return .warned(
            cause: "\(found): more than limits.stanza, which ends the worker's stream",
            fix: "some kilobytes less (Prosody: c2s_stanza_size_limit; ejabberd: max_stanza_size)"
        )
    }

    /// JSON texts as a device escapes them, and as they must come.
    private static let texts: [(name: String, sent: String, wanted: String)] = [
        ("markup", "{\"t\":\"&lt;&amp;&gt;]]&gt;&apos;\"}", "{\"t\":\"<&>]]>'\"}"),
        ("quotation marks", "{&quot;t&quot;:&quot;&quot;}", "{\"t\":\"\"}"),
        ("tab and line feed", "{\"t\":&#9;&#10;1}", "{\"t\":\t\n1}"),
        ("characters beyond 16 bits", "{\"t\":\"&#128512;😀\"}", "{\"t\":\"😀😀\"}"),
        ("composed characters", "{\"t\":\"e\u{301}é\u{A0}\u{2028}\"}", "{\"t\":\"e\u{301}é\u{A0}\u{2028}\"}"),
        ("carriage return", "{\"t\":&#13;1}", "{\"t\":\r1}"),
    ]

    func characters() async throws(Trouble) -> Probe.Result {
        let stream = try await receiver()
        let device = try await device()
        let sent = Self.texts.map { (id: nextID(), text: $0) }
        device.send(sent.map { message($0.id, data: $0.text.sent) }.joined())
        let fate = await fate(of: sent.map(\.id), at: stream)
        let came = await stream.news.messages
        await stream.close()
        guard fate.came == sent.count else { return judge(fate, "messages with them", returned: "see its log") }
        let changed = sent.filter { sent in
            // By bytes: a String compares equal however it is composed.
            !came.contains { $0.id == sent.id && $0.data.utf8.elementsEqual(sent.text.wanted.utf8) }
        }
        .map(\.text.name)
        // XML makes a line feed of one that is not escaped, and JSON can do without.
        if changed.allSatisfy({ $0 == "carriage return" }) {
            let exception = changed.isEmpty ? "" : ", but for a carriage return, which JSON writes as \\r"
            return .passed(detail: "come as they were sent" + exception)
        }
        let fix = "have devices escape them in JSON: copies of a message that differ are conflicts"
        return .warned(cause: "changed: \(changed.joined(separator: ", "))", fix: fix)
    }

    /// Leaves nothing stored for the receiver, but in an archive.
    func finish() async throws(Trouble) -> Probe.Result {
        let count = try await drain()
        await (try device()).close()
        return .passed(detail: "\(Amount.counted(count, "message")), dropped; an archive keeps what it has")
    }
}
