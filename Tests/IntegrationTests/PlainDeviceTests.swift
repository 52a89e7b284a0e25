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
            _ body: (PlainDevice, LocalWorker, Database) async throws -> Void
        ) async throws {
            try await StandardServer.run(kind) { server, _, database in
                let device = try await PlainDevice.start(server)
                let keys = more.split(separator: ";").map { "    \($0.trimmingCharacters(in: .whitespaces))\n" }
                let yaml = try server.yaml(database).replacing(
                    "    dialect: xmpp\n",
                    with: "    dialect: xmpp\n" + keys.joined()
                )
                let worker = try LocalWorker(yaml: yaml)
                do {
                    try await waitUntil("the stream is bound") {
                        worker.metrics.connections(sender: 0, state: .bound).value == 1
                    }
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
    private let process: ServerProcess
    private let log: URL

    private init(process: ServerProcess, log: URL) {
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
        let device = PlainDevice(process: process, log: log)
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
