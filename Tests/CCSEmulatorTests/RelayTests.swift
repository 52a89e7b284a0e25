import CCSEmulator
import Foundation
import Testing

@testable import CCSEmulator

@Suite("Emulator: messages of clients, for the workers of their account", .timeLimit(.minutes(5)))
struct RelayTests {
    private static var configuration: EmulatorConfiguration {
        var configuration = EmulatorConfiguration()
        configuration.load = LoadProfile(count: 0)
        return configuration
    }

    private static func upstream(_ id: String, to: String = "42@gcm.googleapis.com") -> String {
        """
        <message to="\(to)"><gcm xmlns="google:mobile:data">{"message_id":"\(id)","from":"FAKE-t","category":"c",\
        "data":{"a":[1,"}"]}}</gcm></message>
        """
    }

    private static func ack(_ id: String) -> String {
        """
        <message><gcm xmlns="google:mobile:data">{"to":"FAKE-t","message_id":"\(id)","message_type":"ack"}</gcm></message>
        """
    }

    @Test("a client's message goes to a worker, and the worker's ack to the client")
    func relay() async throws {
        try await withEmulator(Self.configuration) { emulator in
            let worker = try await TestClient.bound(to: emulator)
            let source = try await TestClient.bound(to: emulator)
            try await source.send(Self.upstream("m1"))
            let message = try await worker.read(through: "</message>")
            #expect(message.contains(#"from="42@gcm.googleapis.com""#) && message.contains("m1"))
            try await worker.send(Self.ack("m1"))
            let ack = try await source.read(through: "</message>")
            #expect(ack.contains("m1") && ack.contains("ack"))
            // Sent again, as after a lost ack: the worker gets another copy and acks it.
            try await source.send(Self.upstream("m1"))
            _ = try await worker.read(through: "</message>")
            try await worker.send(Self.ack("m1"))
            _ = try await source.read(through: "</message>")
            let tally = await emulator.tally()
            #expect(tally.isClean && tally.relayed == 2 && tally.sent == 1, "\(tally.summary)")
        }
    }

    @Test("a message waits for a worker to come, and never goes back to its client")
    func waiting() async throws {
        try await withEmulator(Self.configuration) { emulator in
            let source = try await TestClient.bound(to: emulator)
            try await source.send(Self.upstream("m1") + Self.upstream("m2"))
            try await emulator.wait(for: "the messages") { $0.tally.relayed == 2 }
            #expect(await emulator.tally().deliveries == 0)
            let worker = try await TestClient.bound(to: emulator)
            let first = try await worker.read(through: "</message>")
            let second = try await worker.read(through: "</message>")
            #expect(first.contains("m1") && second.contains("m2"))
            try await worker.send(Self.ack("m1") + Self.ack("m2"))
            try await emulator.wait(for: "the acks") { $0.tally.acked == 2 }
        }
    }

    @Test("what is for somebody else's account is no message to relay")
    func strangers() async throws {
        try await withEmulator(Self.configuration) { emulator in
            let source = try await TestClient.bound(to: emulator)
            try await source.send(Self.upstream("m1", to: "43@gcm.googleapis.com"))
            try await emulator.wait(for: "the refusal") { $0.tally.malformedAcks == 1 }
            #expect(await emulator.tally().relayed == 0)
        }
    }

    @Test(
        "identities are read whatever stands around them",
        arguments: [
            (#"{"message_id":"a","from":"b"}"#, true),
            (#"{"data":{"message_id":"x","q":"\"}"},"from":"b","message_id":"a"}"#, true),
            (#"{"n":1.5e3,"from":"b","z":null,"message_id":"\u0061"}"#, true), (#"{"message_id":7,"from":"b"}"#, false),
            (#"{"message_id":"a"}"#, false), ("[]", false), (#"{"message_id":"a","from":"b"#, false), ("", false),
        ]
    )
    func identities(_ text: String, _ isReadable: Bool) {
        let identity = Array(text.utf8).withUnsafeBufferPointer { RelayedIdentity($0) }
        #expect((identity != nil) == isReadable)
        if let identity { #expect(identity.messageID == Array("a".utf8) && identity.from == Array("b".utf8)) }
    }
}
