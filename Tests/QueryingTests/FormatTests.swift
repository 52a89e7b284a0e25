import Foundation
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("what is written can be read again", .timeLimit(.minutes(3)))
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
        #expect(
            try page.messages.map(\.fingerprint.description)
                == lines.dropLast().map { line in
                    (try? JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])?["fingerprint"] as? String
                        ?? ""
                }
        )
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
