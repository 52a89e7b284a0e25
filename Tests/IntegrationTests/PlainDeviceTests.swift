import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// An ordinary XMPP client as a device: JSON containers in, acks or receipts out.
    @Suite struct PlainDeviceTests {
        private static func run(
            _ kind: ServerKind,
            _ more: String,
            pubsub: Bool = false,
            _ body: (PlainDevice, LocalWorker, Database) async throws -> Void
        ) async throws {
            try await StandardServer.run(kind, ServerOptions(pubsub: pubsub)) { server, _, database in
                let device = try await PlainDevice.start(server)
                let keys = more.split(separator: ";").map { "    \($0.trimmingCharacters(in: .whitespaces))\n" }
                let service = "pubsub.\(StandardServer.domain)"
                let yaml = try server.yaml(database)
                    .replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n" + keys.joined())
                    .replacing("trusted_from: [", with: "trusted_from: [\"\(service)\", ")
                let worker = try LocalWorker(yaml: yaml)
                do {
                    try await waitUntil("the stream is bound") { worker.isLoggedIn }
                    try await body(device, worker, database)
                } catch {
                    await worker.abandon()
                    FileHandle.standardError.write(Data(worker.logs.lines.suffix(15).joined().utf8))
                    throw error
                }
                try await worker.stop()
            }
        }

        private static let keys = """
            payload: json; id_scope: device; \
            fallback: {message_id: stanza_id, from: sender, category: com.example.plain}
            """

        @Test(
            "bare JSON is stored under the stanza's id and its sender, acked in the same form, and known when it comes again",
            arguments: ServerKind.allCases
        )
        func bareMessages(_ kind: ServerKind) async throws {
            try await Self.run(kind, Self.keys) { device, worker, database in
                let ids = (1...20).map { "s\($0)" }
                for id in ids + ids { try device.send(#"{"id":"\#(id)","json":{"data":{"n":"\#(id)"}}}"#) }
                try await waitUntil("every copy is acked") { device.events("ack").count == 2 * ids.count }
                #expect(Set(device.events("ack")) == Set(ids) && device.events("error").isEmpty)
                #expect(worker.settled(.stored) == ids.count && worker.settled(.duplicate) == ids.count)
                let token = "\(StandardServer.peer)@\(StandardServer.domain)"
                let right = try await database.integer(
                    "SELECT count(*) FROM upstream.messages WHERE registration_token = '\(token)' "
                        + "AND category = 'com.example.plain' AND data->>'n' = message_id AND extra IS NULL"
                )
                #expect(right == ids.count)
                // An origin-id comes first; members come before everything.
                try device.send(#"{"id":"x","origin":"o1","json":{"data":1}}"#)
                try device.send(#"{"id":"x","json":{"message_id":"m1","from":"t","category":"c","data":2}}"#)
                try await waitUntil("both are acked") { device.events("ack").count == 2 * ids.count + 2 }
                // Two batches may hold them, whose commits have no order.
                #expect(Set(device.events("ack").suffix(2)) == ["o1", "m1"])
                #expect(worker.settled(.stored) == ids.count + 2)
            }
        }

        private static let forms = """
            payload: [event, json, body]; body_json: true; id_scope: device; ack: receipt; \
            fallback: {message_id: stanza_id, from: sender, category_from: subject, category: com.example.plain}
            """

        @Test(
            "a body is stored with what it says, once, and answered by a receipt after the commit; odd ones stop nobody",
            arguments: ServerKind.allCases
        )
        func bodies(_ kind: ServerKind) async throws {
            try await Self.run(kind, Self.forms) { device, worker, database in
                func order(_ id: String, _ body: String, _ more: [String: Any] = [:]) throws -> String {
                    let order = ["id": id, "body": body, "receipt": true, "type": "chat"].merging(more) { $1 }
                    return String(decoding: try JSONSerialization.data(withJSONObject: order), as: UTF8.self)
                }
                let texts = [
                    "b1": #"{"n": 1.10}"#, "b2": "Hello \"you\" & <me>\n\t\\ é😀", "b3": "12",
                    "b4": #"","message_id":"x"#,
                    "b5": "\u{7f}\u{85}\u{2028}",
                ]
                try await database.withLockedLedger {
                    for (id, text) in texts { try device.send(order(id, text)) }
                    try await waitUntil("messages are in flight") {
                        worker.metrics.messages.snapshot().inFlight == texts.count
                    }
                    #expect(device.events("receipt").isEmpty)
                }
                try await waitUntil("every receipt is there") { device.events("receipt").count == texts.count }
                for (id, text) in texts { try device.send(order(id, text)) }
                try await waitUntil("known ones get theirs") { device.events("receipt").count == 2 * texts.count }
                #expect(worker.settled(.stored) == texts.count && worker.settled(.duplicate) == texts.count)
                // Odd ones: two bodies in a language, no text, a room's, an error, a marker.
                try device.send(order("o1", "x", ["inner": "<body xmlns='jabber:client'>y</body>"]))
                try device.send(#"{"id":"o2","inner":"<displayed xmlns='urn:xmpp:chat-markers:0' id='b1'/>"}"#)
                try device.send(order("o3", "x", ["type": "groupchat"]))
                try device.send(order("o4", "x", ["type": "error"]))
                try device.send(order("last", "x"))
                try await waitUntil("the last is answered") { device.events("receipt").contains("last") }
                #expect(device.events("receipt").dropFirst(2 * texts.count).allSatisfy { ["o1", "last"].contains($0) })
                let rows = try await database.texts(
                    "SELECT message_id || ' ' || data::text FROM upstream.messages WHERE message_id LIKE 'b_' ORDER BY 1"
                )
                #expect(rows.count == texts.count && rows[0] == #"b1 {"n": 1.10}"# && rows[2] == "b3 12")
                for (id, text) in texts where !["b1", "b3"].contains(id) {
                    let data = try #require(rows.first { $0.hasPrefix("\(id) ") }).dropFirst(3)
                    let read = try JSONSerialization.jsonObject(with: Data(data.utf8), options: .fragmentsAllowed)
                    #expect(read as? String == text, "\(id)")
                }
                #expect(try await database.texts("SELECT reason FROM upstream.quarantine") == ["payload_misplaced"])
                let token = "\(StandardServer.peer)@\(StandardServer.domain)"
                let others = try await database.integer(
                    "SELECT count(*) FROM upstream.messages WHERE registration_token NOT LIKE '\(token)%'"
                )
                #expect(others == 0)
            }
        }

        @Test("a node's items are stored under their ids, JSON or not", arguments: ServerKind.allCases)
        func events(_ kind: ServerKind) async throws {
            try await Self.run(kind, Self.forms, pubsub: true) { device, worker, database in
                try device.send(#"{"node":"com.example.news","subscribe":true}"#)
                try device.send(#"{"node":"com.example.news","item":"i1","json":{"n":1.5}}"#)
                let entry = "<entry xmlns='http://www.w3.org/2005/Atom'><title>a &amp; b</title></entry>"
                try device.send(#"{"node":"com.example.news","item":"i2","inner":"\#(entry)"}"#)
                try device.send(#"{"node":"com.example.news","retract":"i1"}"#)
                try await waitUntil("the service has done all") { device.events("node").count == 4 }
                // ejabberd gives events no id: its retraction, and its notice of the subscription, are kept aside.
                let isNamed = kind == .prosody
                try await waitUntil("all is settled") {
                    worker.settled(.stored) >= (isNamed ? 3 : 2) && worker.settled(.quarantined) >= (isNamed ? 0 : 2)
                }
                let service = "pubsub.\(StandardServer.domain)"
                let rows = try await database.texts(
                    "SELECT concat_ws(' ', category, message_id, registration_token, data) FROM upstream.messages "
                        + "WHERE data->>'name' IS DISTINCT FROM 'retract' ORDER BY message_id"
                )
                func start(_ id: String) -> String { "com.example.news \(id) \(service)/com.example.news " }
                #expect(
                    rows == [
                        start("i1") + #"{"n": 1.5}"#,
                        start("i2") + #"{"name":"entry","xmlns":"http://www.w3.org/2005/Atom","#
                            + #""children":[{"name":"title","text":"a & b"}]}"#,
                    ]
                )
                let retracted = try await database.texts(
                    "SELECT data->'attributes'->>'id' FROM upstream.messages WHERE data->>'name' = 'retract'"
                )
                #expect(retracted == (isNamed ? ["i1"] : []))
                let reasons = try await database.texts("SELECT reason FROM upstream.quarantine")
                #expect(reasons == (isNamed ? [] : ["message_id_unusable", "message_id_unusable"]))
                #expect(device.events("error").isEmpty)
            }
        }

        @Test(
            "an app on Smack (Java): what it puts beside a text changes nothing; it is told by its receipt",
            arguments: ServerKind.allCases
        )
        func smack(_ kind: ServerKind) async throws {
            try await Self.run(kind, Self.forms) { device, worker, database in
                // As Smack 4.4 writes it: its ids, a thread, a chat state (XEP-0085), the id again as origin-id.
                let inner =
                    "<thread xmlns='jabber:client'>2cdfa5c1-77de-4b1e-9f0e-5d64c0c2c5d8</thread>"
                    + "<active xmlns='http://jabber.org/protocol/chatstates'/>"
                func stanza(_ id: String, _ content: String) -> String {
                    #"{"id":"\#(id)","origin":"\#(id)","type":"chat","receipt":true,"inner":"\#(inner)",\#(content)}"#
                }
                let container = #"{"data":{"order":17}}"#
                let forms = [("KX2VO-4", #""body":"{\"order\":17}""#), ("KX2VO-6", #""json":\#(container)"#)]
                for (id, content) in forms + forms { try device.send(stanza(id, content)) }
                // A chat state alone is no message.
                let state = #"{"id":"KX2VO-8","type":"chat","inner":"\#(inner)"}"#
                try device.send(state)
                try device.send(stanza("KX2VO-10", #""body":"last""#))
                try await waitUntil("the last is answered") { device.events("receipt").contains("KX2VO-10") }
                try await waitUntil("each copy is answered") { device.events("receipt").count == 2 * forms.count + 1 }
                let rows = try await database.texts(
                    "SELECT message_id || ' ' || data::text FROM upstream.messages ORDER BY message_id"
                )
                #expect(rows == [#"KX2VO-10 "last""#, #"KX2VO-4 {"order":17}"#, #"KX2VO-6 {"order": 17}"#])
                #expect(try await database.count("quarantine") == 0 && device.events("error").isEmpty)
            }
        }

        @Test("ejabberd sends a reply to the address under which a text was stored")
        func replies() async throws {
            try await Self.run(.ejabberd, Self.forms) { device, worker, database in
                try device.send(#"{"id":"q1","body":"Hello","receipt":true,"type":"chat"}"#)
                try await waitUntil("it is answered") { device.events("receipt") == ["q1"] }
                let address = try await database.texts("SELECT registration_token FROM upstream.messages")
                try await device.server.ask(
                    "send_stanza",
                    [
                        "from": "\(StandardServer.worker)@\(StandardServer.domain)", "to": try #require(address.first),
                        "stanza": "<message type=\"chat\"><body>Thank you</body></message>",
                    ]
                )
                try await waitUntil("the device has it") { device.events("body") == ["Thank you"] }
            }
        }

        @Test("receipts go to who asks for them, after the commit", arguments: ServerKind.allCases)
        func receipts(_ kind: ServerKind) async throws {
            try await Self.run(kind, Self.keys + "; ack: receipt") { device, worker, database in
                let ids = (1...20).map { "r\($0)" }
                try await database.withLockedLedger {
                    for id in ids {
                        try device.send(#"{"id":"\#(id)","receipt":true,"json":{"data":{"n":"\#(id)"}}}"#)
                    }
                    try device.send(#"{"id":"quiet","json":{"data":{}}}"#)
                    try await waitUntil("messages are in flight") {
                        worker.metrics.messages.snapshot().inFlight == ids.count + 1
                    }
                    #expect(device.events("receipt").isEmpty)
                }
                try await waitUntil("every receipt is there") { device.events("receipt").count >= ids.count }
                try await waitUntil("the quiet one is stored") { worker.settled(.stored) == ids.count + 1 }
                #expect(device.events("receipt").sorted() == ids.sorted() && device.events("error").isEmpty)
                try await waitUntil("they are counted") { worker.metrics.acks[.sent].value == UInt64(ids.count) }
            }
        }
    }
}

/// `Tests/Tools/xmpp_json_device.py`: an account of the server that sends JSON containers and hears what answers them.
final class PlainDevice: Sendable {
    let server: StandardServer
    private let process: ServerProcess
    private let log: URL

    private init(_ server: StandardServer, process: ServerProcess, log: URL) {
        self.server = server
        self.process = process
        self.log = log
    }

    /// Starts it and waits until it is signed in.
    static func start(_ server: StandardServer) async throws -> PlainDevice {
        let log = server.scratch.url.appending(path: "device-\(UInt32.random(in: 0...UInt32.max)).out")
        let process = try ServerProcess(
            [
                TestTools.python(), TestTools.path("xmpp_json_device.py"),
                String(server.ports.direct),
                server.authorityFile, "\(StandardServer.peer)@\(StandardServer.domain)",
                "\(StandardServer.worker)@\(StandardServer.domain)",
            ],
            log: log.path
        )
        let device = PlainDevice(server, process: process, log: log)
        try process.write("\(StandardServer.secret)\n")
        try await waitUntil("the device is signed in") {
            guard process.isRunning else { throw WaitedTooLong(description: "the device has ended: \(device.text)") }
            return device.events("ready").count == 1
        }
        return device
    }

    /// Sends a message; see the program for what the line holds.
    func send(_ line: String) throws { try process.write(line + "\n") }

    private var text: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    /// The ids of the events of a kind so far, in their order.
    func events(_ kind: String) -> [String] {
        text.split(separator: "\n").compactMap { line in
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            return object?["event"] as? String == kind ? object?["id"] as? String ?? "" : nil
        }
    }
}
