import NIOCore
import Probing
import XMPP
import XMPPSession

// What the server keeps: offline, and in its archive.
extension ServerTrial {
    func stored() async throws(Trouble) -> Probe.Result {
        let ids = try await post(3)
        let stream = try await receiver()
        let fate = await fate(of: ids, at: stream)
        await stream.close()
        return judge(
            fate,
            "3 messages to an account that is offline",
            returned: "enable offline storage (Prosody: not in modules_disabled; ejabberd: mod_offline)"
        )
    }

    /// Signs in again and again while messages come: what a server is about to store then may slip through.
    func race() async throws(Trouble) -> Probe.Result {
        let device = try await device()
        let ids = (0..<300).map { _ in nextID() }
        let texts = ids.map { message($0) }
        async let sending: Void = {
            for text in texts {
                device.send(text)
                _ = await device.wait(.milliseconds(10)) { _ in false }
            }
        }()
        var came: Set<String> = []
        for _ in 0..<10 {
            let stream = try await receiver()
            _ = await stream.wait(.milliseconds(200)) { _ in false }
            await stream.close()
            came.formUnion(await stream.news.ids)
        }
        await sending
        try await settle(device)
        // Long enough for the second presence, too.
        let stream = try await receiver()
        let left = ids.filter { !came.contains($0) }
        var fate = await fate(of: left, at: stream)
        await stream.close()
        (fate.count, fate.came) = (ids.count, fate.came + ids.count - left.count)
        return judge(
            fate,
            "\(ids.count) messages during 10 logins",
            returned: "have devices send again what has no ack",
            lost: "have devices send again what has no ack, or set archive.catch_up: the server's store loses them"
        )
    }

    func flexibleRetrieval() async throws(Trouble) -> Probe.Result {
        _ = try await post(3)
        let stream = try await receiver(for: .store)
        var walk = OfflineWalk(queue: 2)
        var step = OfflineWalk.Step.ask
        while step == .ask {
            guard let answer = await stream.ask(walk.request) else {
                throw Trouble(message: await stream.news.end?.message ?? "no answer")
            }
            step = walk.answered(answer)
        }
        await stream.close()
        try await drain()
        if step == .done, walk.removed == 3 { return .passed(detail: "offered; 3 messages came, and were removed") }
        if step == .notOffered {
            return .passed(detail: "not offered: keep the store shorter than the queue of unacknowledged messages")
        }
        return .warned(cause: "offered, but \(walk.removed) of 3 messages came (\(step))", fix: "update the server")
    }

    func archive() async throws(Trouble) -> Probe.Result {
        let stream = try await receiver(for: .archive)
        guard case .page(_, let point, _)? = await stream.ask(ArchiveRequest.end) else {
            await stream.close()
            return .passed(detail: "none: for archive.catch_up enable it (Prosody: mam; ejabberd: mod_mam)")
        }
        let device = try await device()
        let (withBody, without) = (nextID(), nextID())
        device.send(message(withBody) + message(without, hasBody: false))
        try await settle(device)
        var ids: Set<String> = []
        // Some archives are written late.
        for _ in 0..<5 where !ids.contains(withBody) {
            _ = await stream.ask(ArchiveRequest.after(point))
            ids = await stream.wait(.seconds(1)) { $0.ids.contains(withBody) }.ids
        }
        await stream.close()
        try await drain()
        guard ids.contains(withBody) else {
            return .warned(
                cause: "there is one, but it lacks what came",
                fix: "archive all (Prosody: default_archive_policy = true; ejabberd: mod_mam: {default: always})"
            )
        }
        let rest = ids.contains(without) ? "also" : "not"
        return .passed(detail: "holds what came, \(rest) without a <body/>: archive.catch_up can be on")
    }
}
