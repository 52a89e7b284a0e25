import NIOCore
import Probing
import UpstreamConfiguration
import Vocabulary
import XMPP
import XMPPSession

// What the server does with a session, while it lasts and when it is lost.
extension ServerTrial {
    func begin() async throws(Trouble) -> Probe.Result {
        let count = try await drain()
        var name = try await device().ask("<query xmlns=\"jabber:iq:version\"/>") ?? ""
        if name.isEmpty { name = "a server that doesn't tell its name (XEP-0092)" }
        return .passed(detail: "\(name); both sign in; dropped \(Amount.counted(count, "message")) of the first")
    }

    func management() async throws(Trouble) -> Probe.Result {
        let stream = try await receiver()
        guard case .enabled? = await stream.news.management else {
            await stream.close()
            return .warned(
                cause: "none: what is in flight when a worker or a connection dies is lost",
                fix: "enable it (Prosody: \"smacks\" in modules_enabled; ejabberd: mod_stream_mgmt)"
            )
        }
        try await settle(stream)
        stream.send("<r xmlns=\"urn:xmpp:sm:3\"/>", stanzas: 0)
        // Our presence, and the query.
        let news = await stream.wait { $0.confirmed >= 2 }
        await stream.close()
        if news.confirmed >= 2 { return .passed(detail: "enabled; its h counts what we send") }
        let found = "enabled, but its h counts \(news.confirmed) of 2 stanzas"
        return .warned(cause: news.end.map { "\(found): \($0.message)" } ?? found, fix: "update the server")
    }

    /// Withdraws presence, as the worker does while its database can't commit.
    func withdrawal() async throws(Trouble) -> Probe.Result {
        let stream = try await receiver()
        stream.send("<presence type=\"unavailable\"/>")
        try await settle(stream)
        let ids = try await post(2)
        let early = await stream.wait(.seconds(1)) { !$0.ids.isDisjoint(with: ids) }
        stream.send("<presence/>")
        let fate = await fate(of: ids, at: stream)
        await stream.close()
        guard early.ids.isDisjoint(with: ids) else {
            return .warned(
                cause: "messages come all the same: its queue fills while the database is down",
                fix: "a long queue of unacknowledged messages, and server_queue as long"
            )
        }
        return judge(fate, "2 messages meanwhile", returned: "enable offline storage")
    }

    /// Lets a connection die with as many unacknowledged messages as the server's queue is said to hold, or 500.
    func loss() async throws(Trouble) -> Probe.Result {
        let first = try await receiver(holds: true)
        let ids = try await post(min(sender.stream.serverQueue, 500) - 5)
        _ = await first.wait(.seconds(30)) { [ids = Set(ids)] in ids.isSubset(of: $0.ids) }
        _ = await first.cut()
        // As long as a worker takes to come back: the server stores them meanwhile.
        _ = try await device().wait(.seconds(2)) { _ in false }
        let second = try await receiver()
        let fate = await fate(of: ids, at: second, within: .seconds(30))
        await second.close()
        return judge(
            fate,
            "\(ids.count) unacknowledged messages",
            returned: "have them stored (ejabberd: resend_on_timeout: if_offline, and max_user_offline_messages)",
            lost: "a longer queue (Prosody: smacks_max_queue_size; ejabberd: max_ack_queue), or a lower server_queue"
        )
    }

    /// Signs in twice with one resource.
    func conflict() async throws(Trouble) -> Probe.Result {
        let fix = "let the new session take over (ejabberd: resource_conflict: closeold)"
        let first = try await receiver(holds: true)
        let ids = try await post(3)
        _ = await first.wait { [ids = Set(ids)] in ids.isSubset(of: $0.ids) }
        let second: TrialStream
        do throws(Trouble) { second = try await receiver() } catch {
            await first.close()
            return .warned(cause: "refused: a worker waits for the end of an old session: \(error.message)", fix: fix)
        }
        guard let end = await first.wait(until: { $0.end != nil }).end else {
            await first.close()
            await second.close()
            return .warned(cause: "both sessions live, and each gets every message", fix: fix)
        }
        let fate = await fate(of: ids, at: second)
        await second.close()
        return judge(
            fate,
            "the new session takes over (\(end.message)); what the old one had not acknowledged",
            returned: "have it stored (ejabberd: resend_on_timeout: if_offline)"
        )
    }

    func resumption() async throws(Trouble) -> Probe.Result {
        let first = try await receiver(resume: .seconds(60))
        let before = try await post(1)
        _ = await first.wait { $0.ids.contains(before[0]) }
        try await settle(first)
        guard let lost = await first.cut() else { return .passed(detail: "not offered: leave resume unset") }
        let ids = try await post(1)
        let second = try await receiver(resume: .seconds(60), resuming: lost)
        let isResumed = await second.news.stream?.resumed != nil
        let fate = await fate(of: ids, at: second)
        guard isResumed, fate.came == 1 else {
            await second.close()
            guard isResumed else { return .warned(cause: "granted, then refused", fix: "leave resume unset") }
            return judge(fate, "a message before it", returned: "leave resume unset", lost: "leave resume unset")
        }
        // Prosody 0.12 goes on parsing where the lost connection broke off.
        second.send("<message to=\"\(sender.domain)\"><body>", stanzas: 0)
        guard let torn = await second.cut() else { return .passed(detail: "goes on with the session, once") }
        let third = try await receiver(resuming: torn)
        let news = await third.wait { $0.isHeard }
        await third.close()
        if news.isHeard { return .passed(detail: "goes on with the session, also after a break inside a stanza") }
        return .warned(
            cause: "goes on with the session; after a break inside a stanza that hears nothing",
            fix: "leave resume unset, or accept a new session after keepalive.timeout then"
        )
    }
}
