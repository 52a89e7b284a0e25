import Foundation
import QuerySupport
import Querying
import Resources
import Testing
import UpstreamKit
import Vocabulary

extension Awkward {
    /// What readers may see.
    fileprivate static let sights = [(true, true), (false, true), (true, false), (false, false)].map {
        Sight(tokens: $0.0, payloads: $0.1)
    }
}

@Suite("what is written can be read again", .timeLimit(.minutes(10)))
struct FormatTests {
    private func write(
        _ page: MessagePage,
        _ format: MessageLines.Format,
        tokens: Bool,
        terminal: Bool = false
    ) -> [UInt8] {
        var lines = MessageLines(format, tokens: tokens, isForTerminal: terminal)
        lines.appendHead()
        for row in 0..<page.count { lines.append(page, row) }
        return lines.take()
    }

    @Test("NDJSON has one object per line, with every value as stored and the ledger's fingerprint")
    func ndjson() async throws {
        let fixture = try await QueryFixture(Awkward.seeds)
        let page = try await fixture.page()
        let text = String(decoding: write(page, .ndjson, tokens: true), as: UTF8.self)
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        #expect(lines.count == Awkward.seeds.count + 1 && lines.last?.isEmpty == true)
        for (line, seed) in zip(lines, Awkward.seeds) {
            let object = try #require(
                try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any],
                "\(seed.id)"
            )
            #expect(object["message_id"] as? String == seed.id)
            #expect(object["category"] as? String == seed.category)
            #expect(object["registration_token"] as? String == seed.token)
            #expect(object["sender_id"] as? String == seed.sender)
            #expect(object["message_type"] as? String == seed.type)
            #expect(object["stanza_from"] as? String == seed.from)
            #expect(object["data_raw"] as? String == seed.raw)
            #expect(
                try TimeExpression.moment(object["received_at"] as? String ?? "") == QueryFixture.start
                    + .microseconds(seed.at)
            )
            for (name, value) in [("data", seed.data), ("extra", seed.extra)] {
                // In the line as it came, or, where it has line ends, beside it as a string.
                guard let value else {
                    #expect(object[name] == nil)
                    continue
                }
                if value.contains(where: \.isNewline) && !value.contains("\u{2028}") {
                    #expect((object["\(name)_verbatim"] as? String)?.utf8.elementsEqual(value.utf8) == true)
                } else {
                    #expect(String(decoding: line, as: UTF8.self).contains("\"\(name)\":\(value)"), "\(seed.id)")
                }
            }
            let key = object["message_key"] as? String ?? ""
            let ledger = try await fixture.text(
                "SELECT fingerprint::text FROM upstream.message_ids WHERE message_key = '\(key)'"
            )
            #expect(object["fingerprint"] as? String == ledger, "\(seed.id)")
            let device = try await fixture.text(
                "SELECT device_key::text FROM upstream.messages WHERE message_key = '\(key)'"
            )
            #expect(object["device_key"] as? String == device)
            #expect(device == DeviceKey(of: RegistrationToken(seed.token)).description)
        }
    }

    @Test(
        "a message's fields make the same object as the fast writer of lines, whoever looks",
        arguments: Awkward.sights
    )
    func agreement(sight: Sight) async throws {
        let page = try await QueryFixture(Awkward.seeds).page()
        for terminal in [false, true] {
            var lines = MessageLines(
                .ndjson,
                tokens: sight.tokens,
                payloads: sight.payloads,
                isForTerminal: terminal
            )
            for row in 0..<page.count {
                lines.appendObject(of: page, row)
                let object = try page.message(row).shown(to: sight).json(isForTerminal: terminal)
                #expect(String(decoding: object, as: UTF8.self) == String(decoding: lines.take(), as: UTF8.self))
            }
        }
    }

    @Test("docs/queries.md has a line for each member, and no other")
    func documented() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/queries.md"), encoding: .utf8)
        let table = try #require(
            page.split(separator: "| member | |\n|---|---|\n").last?.split(separator: "\n\n").first
        )
        let lines = table.split(separator: "\n").map { $0.split(separator: "|")[0] }
        let documented = lines.flatMap { $0.matches(of: #/`(\w+)`/#).map { String($0.output.1) } }
        let members = StoredMessage.fields.map(\.name.description).filter { $0 != "payload" }
        #expect(Set(documented) == Set(members) && documented.count == members.count)
    }

    @Test("lines and records are these, byte for byte")
    func golden() async throws {
        let seeds = [
            Seed(id: "a", data: "{\n\"b\": 1}", extra: #"{"ttl":5}"#, type: "receipt"),
            Seed(id: "b,c", data: nil, raw: #""\u0000""#, from: nil, at: 1),
        ]
        let page = try await QueryFixture(seeds).page()
        let keys = (0..<2).compactMap { page.cursor($0)?.messageKey.description }
        let device = try #require(page.deviceKey(0)).description
        let prints = try page.messages.map {
            try #require($0.shown(to: Awkward.sights[0]).digest(.fingerprint)).description
        }
        let ndjson = #"""
            {"message_key":"\#(keys[0])","received_at":"2026-03-01T12:00:00.000000Z","sender_id":"1234567890","message_id":"a",\#
            "category":"com.example.orders","device_key":"\#(device)","registration_token":"token-SECRET-a",\#
            "message_type":"receipt","stanza_from":"devices@gcm.googleapis.com","data":{ "b": 1},\#
            "data_verbatim":"{\n\"b\": 1}","extra":{"ttl":5},"fingerprint":"\#(prints[0])"}
            {"message_key":"\#(keys[1])","received_at":"2026-03-01T12:00:00.000001Z","sender_id":"1234567890","message_id":"b,c",\#
            "category":"com.example.orders","device_key":"\#(device)","registration_token":"token-SECRET-a",\#
            "data_raw":"\"\\u0000\"","fingerprint":"\#(prints[1])"}

            """#
        #expect(String(decoding: write(page, .ndjson, tokens: true), as: UTF8.self) == ndjson)
        let raw = String(repeating: "\"", count: 3) + #"\u0000"# + String(repeating: "\"", count: 3)
        let csv = #"""
            message_key,received_at,sender_id,message_id,category,device_key,message_type,stanza_from,data,data_raw,extra,\#
            fingerprint
            \#(keys[0]),2026-03-01T12:00:00.000000Z,1234567890,a,com.example.orders,\#(device),receipt,\#
            devices@gcm.googleapis.com,"{
            ""b"": 1}",,"{""ttl"":5}",\#(prints[0])
            \#(keys[1]),2026-03-01T12:00:00.000001Z,1234567890,"b,c",com.example.orders,\#(device),,,,\#
            \#(raw),,\#(prints[1])

            """#
        let records = String(decoding: write(page, .csv, tokens: false), as: UTF8.self)
        #expect(records.replacing("\r\n", with: "\n") == csv)
    }

    @Test("a strict CSV reader gets every value back, and tells null from the empty string")
    func csv() async throws {
        let fixture = try await QueryFixture(Awkward.seeds + [Seed(id: "empty", from: "", at: 20)])
        let seeds = Awkward.seeds + [Seed(id: "empty", from: "", at: 20)]
        for tokens in [true, false] {
            let records = try #require(CSV.read(write(try await fixture.page(), .csv, tokens: tokens)))
            #expect(records.count == seeds.count + 1)
            let head = records[0].compactMap(\.self)
            #expect(head.contains("registration_token") == tokens)
            for (record, seed) in zip(records.dropFirst(), seeds) {
                #expect(record.count == head.count)
                let values = Dictionary(uniqueKeysWithValues: zip(head, record))
                #expect(values["message_id"] == seed.id)
                #expect(values["category"] == seed.category)
                #expect(values["data"] == seed.data)
                #expect(values["data_raw"] == seed.raw)
                #expect(values["extra"] == seed.extra)
                #expect(values["stanza_from"] == seed.from)
                #expect(values["message_type"] == seed.type)
                if tokens { #expect(values["registration_token"] == seed.token) }
            }
        }
    }

    @Test("no format contains a token unless it was requested")
    func masks() async throws {
        let fixture = try await QueryFixture([Seed(id: "a", token: "token-SECRET-a")])
        let page = try await fixture.page()
        for format in [MessageLines.Format.ndjson, .csv] {
            #expect(!String(decoding: write(page, format, tokens: false), as: UTF8.self).contains("SECRET"))
            #expect(String(decoding: write(page, format, tokens: true), as: UTF8.self).contains("SECRET"))
        }
    }

    @Test("for a terminal control characters are escaped, and the JSON value stays the same")
    func terminal() async throws {
        let fixture = try await QueryFixture(Awkward.seeds)
        let page = try await fixture.page()
        for format in [MessageLines.Format.ndjson, .csv] {
            let text = String(decoding: write(page, format, tokens: true, terminal: true), as: UTF8.self)
            #expect(text.unicodeScalars.allSatisfy { $0 == "\n" || $0 == "\r" || !Danger.isDangerous($0) })
            if format == .csv { #expect(!text.unicodeScalars.contains { $0 == "\u{1B}" }) }
        }
        let shown = write(page, .ndjson, tokens: true, terminal: true)
        let plain = write(page, .ndjson, tokens: true)
        for (left, right) in zip(shown.split(separator: 0x0A), plain.split(separator: 0x0A)) {
            let objects = try [left, right].map { try JSONSerialization.jsonObject(with: Data($0)) as? NSDictionary }
            #expect(objects[0] == objects[1])
        }
    }
}
