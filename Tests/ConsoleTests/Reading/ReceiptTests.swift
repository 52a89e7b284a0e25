import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("a receipt's token", .timeLimit(.minutes(10)))
struct ReceiptTests {
    private static let data =
        #"{"\u0064evice_registration_id":"token-SECRET-b","message_status":"MESSAGE_SENT_TO_DEVICE"}"#
    private static let seed = Seed(
        id: "dr2:39",
        token: "gcm.googleapis.com",
        data: data,
        extra: #"{"device_registration_id":"token-SECRET-b"}"#,
        type: "receipt"
    )

    @Test("is on no page, in no list, detail, stream or export; who may see it asks for it")
    func masked() async throws {
        try await ConsoleHarness.run([Self.seed]) { console in
            try await console.database.add(
                [Seed(id: "dr2:39", data: Self.data, type: "receipt", at: 5)],
                into: "conflicts"
            )
            let key = try #require(try await console.database.text("SELECT message_key::text FROM upstream.messages"))
            let print = try await console.database.text("SELECT fingerprint::text FROM upstream.conflicts") ?? ""
            for path in [
                "/api/v1/messages", "/api/v1/messages/\(key)", "/api/v1/messages/export", "/api/v1/conflicts",
                "/api/v1/conflicts/\(key)", "/messages", "/messages/\(key)", "/conflicts/\(key)/\(print)",
            ] {
                let reply = try await console.get(path, as: .revealer)
                #expect(reply.status == 200 && !reply.text.contains("token-SECRET-b"), "\(path)")
                #expect(reply.text.contains("(masked)"), "\(path)")
            }
            var events = EventReader(try await console.open("/api/v1/messages/stream"))
            let event = try #require(try await events.next("message"))
            #expect(event.data.contains("(masked)") && !event.data.contains("token-SECRET-b"))
            for path in ["/api/v1/messages", "/api/v1/messages/\(key)", "/api/v1/conflicts/\(key)"] {
                let reply = try await console.get("\(path)?reveal=token", as: .revealer)
                #expect(reply.text.contains("token-SECRET-b"), "\(path)")
            }
        }
    }

    @Test("is read out by no clause of those without the right")
    func clauses() async throws {
        try await ConsoleHarness.run([Self.seed]) { console in
            let clause = "where=data.device_registration_id~%5Etoken"
            for path in ["messages", "messages/export", "messages/stream", "conflicts"] {
                let reply = try await console.get("/api/v1/\(path)?\(clause)")
                #expect(reply.status == 403, "\(path)")
                #expect((reply.object["detail"] as? String)?.contains("reveal: true") == true)
            }
            #expect(try await console.get("/api/v1/messages?\(clause)", as: .revealer).items.count == 1)
            #expect(try await console.get("/api/v1/messages?where=data~token-SECRET").items.isEmpty)
            #expect(try await console.get("/api/v1/messages?where=data~token-SECRET", as: .revealer).items.count == 1)
            #expect(try await console.get("/messages?\(clause)").text.contains("takes the right"))
        }
    }
}
