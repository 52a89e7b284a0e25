import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// What must hold on every standard server.
    @Suite struct ServerScenarioTests {
        @Test(
            "messages are stored once and acked to who sent them, over either kind of TLS and each SASL mechanism",
            arguments: ServerKind.allCases,
            [("direct", "SCRAM-SHA-256"), ("starttls", "SCRAM-SHA-1")]
        )
        func signIn(_ kind: ServerKind, _ way: (mode: String, mechanism: String)) async throws {
            try await ServerScenario.run(kind, ServerOptions(mechanisms: [way.mechanism])) { scenario in
                try await scenario.withWorker(scenario.yaml(mode: way.mode)) { worker in
                    let ids = ServerScenario.ids(1...30)
                    try scenario.device.send(ids)
                    try await scenario.waitForAcks(ids)
                    #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                    #expect(!worker.logs.lines.contains { $0.contains("stream.unmanaged") })
                }
                try await scenario.expectStored(ServerScenario.ids(1...30))
                // Nothing of it waits for a next connection.
                #expect(try await scenario.server.offlineMessages(scenario.account) == 0)
            }
        }

        @Test(
            "what is sent while the worker is down waits on the server, and is stored and acked once it is up",
            arguments: ServerKind.allCases
        )
        func offline(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let ids = ServerScenario.ids(1...150)
                try scenario.device.send(ids)
                try await waitUntil("the server has stored them") {
                    try await scenario.server.offlineMessages(scenario.account) == ids.count
                }
                try await scenario.withWorker { worker in
                    try await scenario.waitForAcks(ids)
                    #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == 0)
                }
                #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                try await scenario.expectStored(ids)
                #expect(try await scenario.server.offlineMessages(scenario.account) == 0)
            }
        }

        @Test(
            "what strangers send, under their own name or another's, and what is only forwarded is never taken for a message",
            arguments: ServerKind.allCases,
            Attachment.allCases
        )
        func forged(_ kind: ServerKind, _ attachment: Attachment) async throws {
            try await ServerScenario.run(kind, as: attachment) { scenario in
                func payload(_ id: String) -> String {
                    "<gcm xmlns='google:mobile:data'>{&quot;message_id&quot;:&quot;\(id)&quot;,"
                        + "&quot;from&quot;:&quot;FAKE-token&quot;,&quot;category&quot;:&quot;c&quot;}</gcm>"
                }
                let device = scenario.device
                let stranger = try await StandardSender.start(
                    scenario.server,
                    as: StandardServer.stranger,
                    to: device.address
                )
                try await scenario.withWorker { worker in
                    try stranger.send(content: payload("stranger"))
                    try await waitUntil("it is counted") { worker.metrics.stanzas[.untrusted].value == 1 }
                    // Servers put the true address in its place, or end the stranger's stream.
                    let trusted = "\(StandardServer.peer)@\(StandardServer.domain)"
                    try stranger.send(
                        stanza: "<message from='\(trusted)' to='\(device.address)'>\(payload("forged"))</message>"
                    )
                    try await waitUntil("the stranger has got nowhere") {
                        worker.metrics.stanzas[.untrusted].value == 2 || !stranger.isRunning
                    }
                    // Carbons (XEP-0280) and forwarded messages (XEP-0297), from the trusted device itself.
                    let inner =
                        "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='\(trusted)' "
                        + "to='\(device.address)'>\(payload("copy"))</message></forwarded>"
                    for copy in ["received", "sent"] {
                        try device.send(content: "<\(copy) xmlns='urn:xmpp:carbons:2'>\(inner)</\(copy)>")
                    }
                    try device.send(content: inner)
                    try device.send(["m1"])
                    try await scenario.waitForAcks(["m1"])
                    #expect(device.acks == ["m1"] && stranger.acks.isEmpty)
                }
                try await scenario.expectStored(["m1"])
                try await stranger.stop()
            }
        }

        @Test(
            "a stranger who floods the account delays nobody's messages for long, and ends nothing",
            arguments: ServerKind.allCases,
            Attachment.allCases
        )
        func flood(_ kind: ServerKind, _ attachment: Attachment) async throws {
            try await ServerScenario.run(kind, as: attachment) { scenario in
                let stranger = try await StandardSender.start(
                    scenario.server,
                    as: StandardServer.stranger,
                    to: scenario.device.address
                )
                let ids = ServerScenario.ids(1...60)
                let last = "m61"
                try await scenario.withWorker { worker in
                    let filling = String(repeating: "x", count: 1000)
                    for round in 0..<20 {
                        for _ in 0..<100 { try stranger.send(content: "<x xmlns='urn:x'>\(filling)</x>") }
                        try scenario.device.send(ids[round * 3..<round * 3 + 3])
                    }
                    // Nobody has this address: once it is returned, the server has taken the flood, and what is sent now comes
                    // behind it.
                    try stranger.send(
                        stanza: "<message to='nobody@\(StandardServer.domain)' id='marker'><body>x</body></message>"
                    )
                    try await waitUntil("the server has the flood") { stranger.errors == ["marker"] }
                    try scenario.device.send([last])
                    try await scenario.waitForAcks(ids + [last])
                    #expect(worker.metrics.stanzas[.other].value >= 2000)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                    #expect(worker.settled(.stored) == ids.count + 1 && worker.settled(.duplicate) == 0)
                }
                try await scenario.expectStored(ids + [last])
                if attachment == .account {
                    #expect(try await scenario.server.offlineMessages(scenario.account) == 0)
                }
                try await stranger.stop()
            }
        }

        @Test(
            "a stanza of exactly the server's limit, and one above it, harm no other message",
            arguments: ServerKind.allCases,
            Attachment.allCases
        )
        func stanzaLimit(_ kind: ServerKind, _ attachment: Attachment) async throws {
            try await ServerScenario.run(kind, as: attachment) { scenario in
                /// A message of so many bytes, most of them quotation marks, which servers write as six bytes each.
                func stanza(_ id: String, _ size: Int) -> String {
                    let head =
                        "<message to='\(scenario.device.address)' id='\(id)'><gcm xmlns='google:mobile:data'>"
                        + #"{"message_id":"\#(id)","from":"FAKE-token","category":"c","data":["#
                    let tail = "0]}</gcm></message>"
                    let room = size - head.utf8.count - tail.utf8.count
                    return head + String(repeating: " ", count: room % 3) + String(repeating: #""","#, count: room / 3)
                        + tail
                }
                try await scenario.withWorker { worker in
                    try scenario.device.send(stanza: stanza("limit", 256_000))
                    try await waitUntil("it is acked, or its sender's stream ended") {
                        scenario.device.acks == ["limit"] || !scenario.device.isRunning
                    }
                    let second = try await StandardSender.start(scenario.server, to: scenario.device.address)
                    try second.send(stanza: stanza("above", 300_000))
                    try await waitUntil("its sender's stream is ended") { !second.isRunning }
                    let third = try await StandardSender.start(scenario.server, to: scenario.device.address)
                    try third.send(["m1"])
                    try await waitUntil("another is acked") { third.acks == ["m1"] }
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                    #expect(worker.settled(.stored) == scenario.device.acks.count + 1)
                    try await third.stop()
                }
                try await scenario.expectStored(scenario.device.acks + ["m1"])
            }
        }

        @Test(
            "a server that reads a few kilobytes a second from each client slows acks down and loses nothing",
            arguments: ServerKind.allCases,
            Attachment.allCases
        )
        func shaper(_ kind: ServerKind, _ attachment: Attachment) async throws {
            try await ServerScenario.run(kind, ServerOptions(rate: 4000), as: attachment) { scenario in
                let ids = ServerScenario.ids(1...40)
                try await scenario.withWorker { worker in
                    try scenario.device.send(ids)
                    try await scenario.waitForAcks(ids)
                    #expect(scenario.device.acks.sorted() == ids.sorted() && scenario.device.errors.isEmpty)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "two workers on one account with resources of their own: each gets a copy, and each message is stored once",
            arguments: ServerKind.allCases
        )
        func twoWorkers(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind) { scenario in
                let ids = ServerScenario.ids(1...50)
                try await scenario.withWorker(scenario.yaml(resource: "first")) { first in
                    try await scenario.withWorker(scenario.yaml(resource: "second")) { second in
                        try scenario.device.send(ids)
                        try await waitUntil("every copy is acked") { scenario.device.acks.count == 2 * ids.count }
                        // A worker knows its own row by the time that it gave the copy: where both gave theirs in the same
                        // microsecond, each counts it as stored. There is one row all the same.
                        let stored = first.settled(.stored) + second.settled(.stored)
                        let duplicates = first.settled(.duplicate) + second.settled(.duplicate)
                        #expect(stored >= ids.count && stored + duplicates == 2 * ids.count)
                    }
                }
                try await scenario.expectStored(ids)
                #expect(Set(scenario.device.acks) == Set(ids))
            }
        }
    }
}
