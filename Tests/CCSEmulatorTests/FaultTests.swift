import CCSEmulator
import EmulatorSupport
import NIOCore
import Testing

@Suite("Emulator: faults", .timeLimit(.minutes(5)))
struct FaultTests {
    private func withFaults(
        _ script: String,
        count: Int = 3,
        _ configuration: EmulatorConfiguration = Self.plain { _ in },
        _ body: (Emulator) async throws -> Void
    ) async throws {
        var configuration = configuration
        configuration.faults = try FaultScript(parsing: script)
        configuration.load = LoadProfile(count: count)
        try await withEmulator(configuration, body)
    }

    /// Without TLS, unless the change says otherwise.
    private static func plain(_ change: (inout EmulatorConfiguration) -> Void) -> EmulatorConfiguration {
        configured { configuration in
            configuration.security = .none
            change(&configuration)
        }
    }

    @Test("a duplicate wants an ack for each copy")
    func duplicate() async throws {
        try await withFaults("after 1: duplicate", count: 1) { emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            let copies = try await client.messages(2)
            #expect(copies[0].id == copies[1].id)
            try await client.ack(copies[0])
            try await emulator.wait(for: "one ack") { $0.tally.ackedCopies == 1 && !$0.isComplete }
            try await client.ack(copies[1])
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("a conflict has the id and other content")
    func conflict() async throws {
        try await withFaults("after 1: conflict", count: 1) { emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            let copies = try await client.messages(2)
            #expect(copies[0].id == copies[1].id)
            let data = try copies.map { try #require(try unwrap($0.stanza)["data"] as? [String: String]) }
            #expect(data[0] != data[1])
            for copy in copies { try await client.ack(copy) }
            try await emulator.waitUntilComplete()
        }
    }

    @Test("a copy on another connection at once, to be acked there")
    func redeliver() async throws {
        try await withFaults("after 1: redeliver", count: 2, Self.plain { $0.window = 1 }) { emulator in
            let one = try await TestClient.bound(to: emulator, tls: false)
            let first = try await one.nextMessage()
            #expect(try await emulator.snapshot().tally.deliveries == 1, "there was no other connection")
            let other = try await TestClient.bound(to: emulator, tls: false)
            let second = try await other.nextMessage()
            #expect(first.id != second.id)
            try await other.ack(second)
            try await emulator.add(.init(.after(3), .redeliver))
            await one.close()
            try await emulator.wait(for: "the close") { $0.tally.open == 1 }
            let next = try await TestClient.bound(to: emulator, tls: false)
            let copies = try await [next.nextMessage(), other.nextMessage()]
            #expect(copies.map(\.id) == [first.id, first.id])
            try await next.ack(copies[0])
            try await other.ack(copies[1])
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("torn and bytewise stanzas arrive whole, those behind them in order", arguments: ["torn 30ms", "bytewise"])
    func torn(fault: String) async throws {
        try await withFaults("every 2: \(fault)", count: 20, Self.plain { $0.security = .direct }) { emulator in
            let client = try await TestClient.bound(to: emulator)
            let messages = try await client.messages(20)
            #expect(messages.map { $0.id.suffix(2) } == (0..<20).map { $0 < 10 ? "0\($0)" : "\($0)" })
            for message in messages { try await client.ack(message) }
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test(
        "draining: the old connection is served until its acks are in, then ended",
        arguments: ["drain", "drain-nack"]
    )
    func drain(fault: String) async throws {
        try await withFaults(
            "after 2: \(fault)",
            count: 6,
            Self.plain {
                $0.drainMessages = 2
                $0.drainTimeout = .seconds(50)
            }
        ) { emulator in
            let old = try await TestClient.bound(to: emulator, tls: false)
            let early = try await old.messages(2)
            let notice = try await old.read(through: "</message>")
            #expect(notice.contains("CONNECTION_DRAINING") && notice.contains("<data:gcm"))
            let late = try await old.messages(2)
            let new = try await TestClient.bound(to: emulator, tls: false)
            let rest = try await new.messages(2)
            for message in rest { try await new.ack(message) }
            for message in early + late { try await old.ack(message) }
            try await old.read(through: "</stream:stream>")
            try await old.send("</stream:stream>")
            try await old.waitUntilClosed()
            try await emulator.waitUntilComplete()
            let tally = await emulator.tally()
            #expect(tally.isClean && tally.sent == 6 && tally.deliveries == 6)
        }
    }

    @Test(
        "endings of every kind, after which the message comes again",
        arguments: [
            ("close-before-ack", ""), ("reset", ""), ("cut", ""), ("close", "</stream:stream>"),
            ("stream-error conflict", "<conflict xmlns=\"urn:ietf:params:xml:ns:xmpp-streams\"/></stream:error>"),
            ("stream-error see-other-host", ">other.invalid:5235</see-other-host>"),
        ]
    )
    func endings(fault: String, text: String) async throws {
        try await withFaults("after 1: \(fault)", count: 1, Self.plain { $0.closeTimeout = .milliseconds(50) }) {
            emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            let rest = try await client.waitUntilClosed()
            #expect(rest.contains(text))
            let next = try await TestClient.bound(to: emulator, tls: false)
            try await next.ack(next.nextMessage())
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("bad XML goes out as it is, and the peer's stream error is no violation")
    func badXML() async throws {
        try await withFaults("every 1: bad-xml", count: HostileXML.names.count) { emulator in
            for name in HostileXML.names {
                let bytes = try #require(HostileXML.named(name))
                let client = try await TestClient.bound(to: emulator, tls: false)
                let message = try await client.nextMessage()
                let mark = String(decoding: bytes.prefix(9), as: UTF8.self)
                try await client.read(through: mark)
                try await client.ack(message)
                try await client.send(
                    "<stream:error><not-well-formed xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>"
                )
                try await client.waitUntilClosed()
                let tally = await emulator.tally()
                #expect(tally.isClean, "\(name): \(tally.summary)")
            }
            #expect(await emulator.tally().streamErrors == HostileXML.names.count)
        }
    }

    @Test("a half-dead connection answers nothing any more")
    func halfDead() async throws {
        try await withFaults("after 1: half-dead") { emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            try await client.nextMessage()
            try await client.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
            await #expect(throws: TestClient.Failure.self) {
                try await client.read(through: "<", within: .milliseconds(100))
            }
            #expect(await emulator.tally().pings == 0)
        }
    }

    @Test("a stalled connection goes on where it stopped", arguments: ["stall 100ms", "slow-acks 100ms"])
    func stall(fault: String) async throws {
        try await withFaults("after 2: \(fault)", count: 5) { emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            for message in try await client.messages(5) { try await client.ack(message) }
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("noise, nacks, stanza errors and spaces stand between the messages")
    func others() async throws {
        let script =
            "after 1: noise; after 2: nack; after 3: stanza-error; after 4: whitespace; after 5: odd-json from-missing"
        try await withFaults(script, count: 5) { emulator in
            let client = try await TestClient.bound(to: emulator, tls: false)
            try await client.ack(client.nextMessage())
            try await client.read(through: "<novelty xmlns=\"urn:example:novelty\"/>")
            try await client.ack(client.nextMessage())
            #expect(try await client.read(through: "</message>").contains("BAD_ACK"))
            try await client.ack(client.nextMessage())
            #expect(try await client.read(through: "</message>").contains("type=\"error\""))
            try await client.ack(client.nextMessage())
            try await client.read(through: " ")
            try await client.ack(client.nextMessage())
            #expect(try await client.read(through: "</message>").contains("odd"))
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("killing a connection from outside, and a wait that fails says so")
    func kill() async throws {
        try await withFaults("", count: 1, Self.plain { $0.security = .direct }) { emulator in
            let client = try await TestClient.bound(to: emulator)
            try await client.nextMessage()
            let error = await #expect(throws: EmulatorError.self) {
                try await emulator.waitUntilComplete(limit: .milliseconds(20))
            }
            #expect(error?.message.contains("every message acked") == true)
            try await emulator.kill(1, reset: true)
            try await client.waitUntilClosed()
            #expect(try await emulator.snapshot().connections.isEmpty)
        }
    }
}
