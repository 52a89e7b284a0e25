import EmulatorSupport
import Foundation
import NIOCore
import Testing

@testable import CCSEmulator

@Suite("Emulator: set-up of connections", .timeLimit(.minutes(5)))
struct SetUpTests {
    @Test("direct TLS, sign-in by JID, bind, session, pings; a clean end")
    func directTLS() async throws {
        try await withEmulator { emulator in
            let client = try await TestClient.bound(to: emulator)
            try await client.send("<iq type='set' id='s1'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>")
            #expect(try await client.read(through: "/>") == "<iq type=\"result\" id=\"s1\"/>")
            try await client.send("<presence/> <iq type='get' id='p&apos;1'><ping xmlns='urn:xmpp:ping'/></iq>")
            #expect(try await client.read(through: "/>") == "<iq type=\"result\" id=\"p&apos;1\"/>")
            try await emulator.inject(.ping)
            try await client.read(through: "<ping xmlns=\"urn:xmpp:ping\"/></iq>")
            try await client.send("</stream:stream>")
            #expect(try await client.waitUntilClosed() == "</stream:stream>")
            let tally = await emulator.tally()
            #expect(tally.isClean && tally.bound == 1 && tally.open == 0 && tally.pings == 1)
        }
    }

    @Test("many connections at once, whose first bytes may come along with the end of the handshake")
    func manyConnections() async throws {
        try await withEmulator { emulator in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<40 {
                    group.addTask { _ = try await TestClient.bound(to: emulator) }
                }
                try await group.waitForAll()
            }
            #expect(await emulator.tally().bound == 40)
        }
    }

    @Test("STARTTLS is offered alone and needed before anything else")
    func startTLS() async throws {
        try await withEmulator(
            configured {
                $0.security = .startTLS
                $0.load.count = 1
            }
        ) { emulator in
            let client = try await TestClient.connect(to: emulator, tls: false)
            try await client.open()
            let features = try await client.read(through: "</stream:features>")
            #expect(features.contains("<starttls") && !features.contains("mechanism"))
            try await client.upgrade(emulator)
            try await client.signIn()
            try await client.ack(client.nextMessage())
            try await emulator.waitUntilComplete()

            let eager = try await TestClient.connect(to: emulator, tls: false)
            try await eager.open()
            try await eager.read(through: "</stream:features>")
            try await eager.send(eager.auth("42", "x"))
            #expect(try await eager.waitUntilClosed().contains("policy-violation"))
        }
    }

    @Test("bytes put in front of the TLS handshake end the connection")
    func smuggled() async throws {
        try await withEmulator(configured { $0.security = .startTLS }) { emulator in
            let client = try await TestClient.connect(to: emulator, tls: false)
            try await client.open()
            try await client.read(through: "</stream:features>")
            try await client.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/><auth/>")
            try await client.waitUntilClosed()
            #expect(await emulator.tally().brokenStreams == 1)
        }
    }

    @Test("known senders sign in with their secret only, three tries a connection")
    func credentials() async throws {
        try await withEmulator(configured { $0.credentials = .secrets(["42": "right"]) }) { emulator in
            let client = try await TestClient.connect(to: emulator)
            try await client.open()
            try await client.read(through: "</stream:features>")
            for (sender, secret) in [("42", "wrong"), ("43", "right")] {
                try await client.send(client.auth(sender, secret))
                #expect(try await client.read(through: "</failure>").contains("<not-authorized/>"))
            }
            try await client.send("<auth mechanism='PLAIN' xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AA==</auth>")
            #expect(try await client.waitUntilClosed().contains("<malformed-request/>"))
            #expect(await emulator.tally().refusals == 3)
            let good = try await TestClient.connect(to: emulator)
            try await good.signIn(secret: "right")
        }
    }

    @Test("features can come under another prefix")
    func foreignPrefix() async throws {
        try await withEmulator(configured { $0.usesForeignFeaturePrefix = true }) { emulator in
            let client = try await TestClient.connect(to: emulator)
            try await client.open()
            #expect(try await client.read(through: "</str:features>").contains("<str:features xmlns:str="))
        }
    }

    @Test(
        "connections meet what the script has for them",
        arguments: [
            ("refuse", "<not-authorized/>"), ("close-after-auth", "<success"), ("close-after-bind", "<success"),
        ]
    )
    func scripted(fault: String, seen: String) async throws {
        let faults = try FaultScript(parsing: "connection 1-2: \(fault)")
        try await withEmulator(
            configured {
                $0.faults = faults
                $0.security = .none
            }
        ) { emulator in
            for _ in 0..<2 {
                let client = try await TestClient.connect(to: emulator, tls: false)
                try await client.open()
                try await client.read(through: "</stream:features>")
                try await client.send(client.auth("42", "x"))
                if fault == "refuse" {
                    #expect(try await client.read(through: "</failure>").contains(seen))
                    await client.close()
                } else {
                    // Either may come too late.
                    try? await client.open()
                    try? await client.send("<iq type='set'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
                    #expect(try await client.waitUntilClosed().contains(seen))
                }
            }
            _ = try await TestClient.bound(to: emulator, tls: false)
        }
    }

    @Test("an emulator that cannot work says why")
    func problems() async throws {
        var configuration = EmulatorConfiguration()
        configuration.window = 0
        configuration.load.devices = 0
        let error = await #expect(throws: EmulatorError.self) { try await Emulator.start(configuration) }
        #expect(error?.message == "devices must be 1...99999999; window must be 1 or more")
    }

    @Test("the transcript has both directions and no secret")
    func transcript() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("transcript-\(UUID()).jsonl").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await withEmulator(
            configured {
                $0.transcript = path
                $0.load.count = 1
            }
        ) { emulator in
            let client = try await TestClient.bound(to: emulator)
            try await client.ack(client.nextMessage())
            try await emulator.waitUntilComplete()
        }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        var seen: Set<String> = []
        for line in text.split(separator: "\n") {
            let object = try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            #expect(object["connection"] as? Int == 1 && object["time"] is String)
            let content = try #require(object["text"] as? String)
            if content.contains("<success") { seen.insert("success \(object["direction"] ?? "")") }
            if content.contains("\"message_type") || content.contains("message_type&quot;") {
                seen.insert("ack \(object["direction"] ?? "")")
            }
        }
        #expect(seen == ["success out", "ack in"])
        #expect(!text.contains(Data("\042@gcm.googleapis.com\0secret".utf8).base64EncodedString().prefix(12)))
        #expect(!text.contains("<auth"))
    }
}

@Suite("Emulator: messages and acks", .timeLimit(.minutes(5)))
struct MessageTests {
    @Test("the window holds messages back until acks come")
    func window() async throws {
        try await withEmulator(
            configured {
                $0.window = 10
                $0.load = LoadProfile(count: 25)
                $0.load.receiptShare = 0.3
            }
        ) { emulator in
            let client = try await TestClient.bound(to: emulator)
            let first = try await client.messages(10)
            try await client.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
            #expect(
                try await client.read(through: "/>") == "<iq type=\"result\" id=\"p\"/>",
                "nothing beyond the window"
            )
            #expect(try await emulator.unackedIDs(on: 1) == first.map(\.id))
            try await client.ack(first[4])
            let eleventh = try await client.nextMessage()
            for message in first where message != first[4] { try await client.ack(message) }
            try await client.ack(eleventh)
            for _ in 0..<14 { try await client.ack(client.nextMessage()) }
            try await emulator.waitUntilComplete()
            let tally = await emulator.tally()
            #expect(tally.isClean && tally.sent == 25 && tally.deliveries == 25 && tally.ackedCopies == 25)
        }
    }

    @Test("unacked messages come again on the next connection, and old acks there are worth nothing")
    func redelivery() async throws {
        try await withEmulator(configured { $0.load = LoadProfile(count: 6) }) { emulator in
            let one = try await TestClient.bound(to: emulator)
            let first = try await one.messages(6)
            try await one.ack(first[2])
            try await emulator.wait(for: "the ack") { $0.tally.acked == 1 }
            await one.close()
            try await emulator.wait(for: "the close") { $0.tally.open == 0 }
            let next = try await TestClient.bound(to: emulator)
            let again = try await next.messages(5)
            #expect(again.map(\.id) == first.filter { $0 != first[2] }.map(\.id))
            for message in again { try await next.ack(message) }
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
            #expect(await emulator.tally().deliveries == 11)
        }
    }

    @Test("wrong-connection, double, unknown and malformed acks are refused and counted")
    func refusedAcks() async throws {
        try await withEmulator(
            configured {
                $0.load = LoadProfile(count: 2)
                $0.window = 2
            }
        ) { emulator in
            let one = try await TestClient.bound(to: emulator)
            let messages = try await one.messages(2)
            let other = try await TestClient.bound(to: emulator)
            try await other.ack(messages[0])
            #expect(try await other.read(through: "</message>").contains("<error code=\"406\""))
            try await one.ack(id: "never", to: messages[0].from)
            #expect(try await one.read(through: "</message>").contains(">Received acks for messages not sent over"))
            try await one.ack(id: messages[0].id, to: "FAKE-other")
            try await one.read(through: "code=\"406\"")
            for _ in 0..<2 { try await one.ack(messages[0]) }
            try await one.read(through: "code=\"406\"")
            try await one.send("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"ack\"}</gcm></message>")
            try await one.read(through: "code=\"400\"")
            try await one.send("<message><body>hi</body></message><iq type='get' id='x'><query xmlns='a:b'/></iq>")
            try await one.read(through: "feature-not-implemented")
            let tally = await emulator.tally()
            #expect(tally.wrongConnectionAcks == 1 && tally.doubleAcks == 1 && tally.unknownAcks == 2)
            #expect(tally.malformedAcks == 1 && tally.unexpectedStanzas == 2)
            #expect(tally.acked == 1 && tally.neverAcked == 1 && !tally.isClean)
            #expect(tally.violations.count == 7)
            #expect(!tally.summary.contains(messages[0].id) && !tally.json.contains(messages[0].from))
        }
    }

    @Test("messages are shared out over the sender's connections, and senders do not mix")
    func sharding() async throws {
        try await withEmulator(
            configured {
                $0.load = LoadProfile(count: 40)
                $0.load.rate = 2000
                $0.load.connections = 2
                // However the load's clock ticks, one connection can't take them all.
                $0.window = 30
                $0.security = .none
            }
        ) { emulator in
            let one = try await TestClient.bound(to: emulator, tls: false)
            let other = try await TestClient.bound(to: emulator, tls: false)
            let stranger = try await TestClient.bound(to: emulator, sender: "7", tls: false)
            let friend = try await TestClient.bound(to: emulator, sender: "7", tls: false)
            try await emulator.wait(for: "all sent") { $0.tally.sent == 80 }
            let unacked = try await emulator.snapshot().connections.map(\.unacked)
            #expect(
                unacked[0] >= 10 && unacked[1] >= 10 && unacked[0] + unacked[1] == 40 && unacked[2] + unacked[3] == 40
            )
            for (client, count) in zip([one, other, stranger, friend], unacked) {
                for message in try await client.messages(count) { try await client.ack(message) }
            }
            try await emulator.waitUntilComplete()
            #expect(await emulator.tally().isClean)
        }
    }

    @Test("every odd message that must be acked can be, by its unescaped id and sender")
    func oddMessages() async throws {
        try await withEmulator(configured { $0.window = 1000 }) { emulator in
            let client = try await TestClient.bound(to: emulator)
            let address = StanzaAddress(from: nil, to: nil)
            for (index, odd) in OddMessage.all.enumerated() where odd.isAcked {
                let instance = odd.instance(id: "odd-\(index)", token: "T", address: address, form: .cdata)
                try await emulator.inject(stanza: instance.stanza, id: instance.id, to: instance.to)
                func literal(_ bytes: [UInt8]) -> String {
                    // The two lone surrogates of the list stand as three bytes.
                    var text = ""
                    if bytes.starts(with: [0xED, 0xA0, 0x80]) { text = #"\ud800"# }
                    if bytes.starts(with: [0xED, 0xBF, 0xBF]) { text = #"\udfff"# }
                    for unit in String(decoding: bytes.dropFirst(text.isEmpty ? 0 : 3), as: UTF8.self).utf16 {
                        let hex = String(unit, radix: 16)
                        text += #"\u"# + String(repeating: "0", count: 4 - hex.count) + hex
                    }
                    return text
                }
                let json =
                    #"{"message_id":"\#(literal(instance.id))","to":"\#(literal(instance.to))","message_type":"ack"}"#
                try await client.send("<message><gcm xmlns='google:mobile:data'>\(json)</gcm></message>")
                try await emulator.wait(for: odd.name, limit: .seconds(60)) { $0.isComplete }
            }
            #expect(await emulator.tally().isClean)
            try await emulator.inject(json: "{}", id: "no", to: "T", expectsAck: false)
            try await client.ack(id: "no", to: "T")
            try await emulator.wait(for: "the unwanted ack") { $0.tally.unwantedAcks == 1 }
            #expect(await emulator.tally().isClean == false)
        }
    }
}
