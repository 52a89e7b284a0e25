import Foundation
import Postgres
import Querying
import Testing
import UpstreamKit
import Vocabulary

/// Content that is awkward in one format or another.
enum Awkward {
    static let escape = "\u{1B}[2J\u{1B}]0;pwned\u{7}"
    static let bidi = "\u{202E}gpj.exe\u{202C}\u{200B}\u{9B}31m\u{E0041}"

    static let seeds: [Seed] = [
        Seed(id: "plain", extra: #"{"ttl":5}"#, at: 0),
        Seed(id: "lines", data: "{\n\t\"a\" : 1,\r\n \"b\": \"x\\ny\"\n}", extra: "{\"e\":\n2}", at: 1),
        Seed(id: "quotes \" , ; \\ '", category: "a,b\"c", data: #"{"q":"say \"hi\", then\\"}"#, at: 2),
        Seed(
            id: escape,
            category: escape,
            token: "tok\(escape)",
            data: #"{"v":"\u001b[2J"}"#,
            from: "x\(escape)@y",
            at: 3
        ),
        Seed(id: bidi, category: bidi, data: "{\"v\":\"\(bidi)\"}", at: 4),
        Seed(id: "line\nbreak\r\ttab", category: "c\nd", data: "[]", at: 5),
        Seed(id: "uncastable", data: nil, raw: #"{"v":"\u0000","n":1e200000}"#, at: 6),
        Seed(id: "no data", data: nil, from: nil, at: 7),
        Seed(id: "json null", data: "null", type: "receipt", at: 8),
        Seed(id: "=cmd|' /C calc'!A0", data: "\"\"", at: 9),
        Seed(id: "emoji 😀 ä \u{2028}\u{2029} \u{85}", data: #"{"k":"😀","k":2}"#, at: 10),
        Seed(id: "1", data: "12345678901234567890.123456789", extra: #"{"deep":[[[]]],"u":"\u0000"}"#, at: 11),
    ]
}

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

    @Test("NDJSON: one object a line, every value as it is in the table, the fingerprint that of the ledger")
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
                try TimeExpression.moment(object["received_at"] as? String ?? "") == QueryFixture.start + seed.at
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
            page.messages.map(\.fingerprint.description)
                == lines.dropLast().map { line in
                    (try? JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])?["fingerprint"] as? String
                        ?? ""
                }
        )
    }

    @Test("CSV: a strict reader gets every value back, and tells null from the empty string")
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

    @Test("a token is in no format unless it was asked for")
    func masks() async throws {
        let fixture = try await QueryFixture([Seed(id: "a", token: "token-SECRET-a")])
        let page = try await fixture.page()
        for format in [MessageLines.Format.ndjson, .csv] {
            #expect(!String(decoding: write(page, format, tokens: false), as: UTF8.self).contains("SECRET"))
            #expect(String(decoding: write(page, format, tokens: true), as: UTF8.self).contains("SECRET"))
        }
    }

    @Test("on a terminal nothing that devices send can act on it, and JSON stays the same value")
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
        var table = TextTable(["A", "B", "C"].map { TextTable.Column($0) })
        for stored in page.messages {
            table.append([stored.message.category, stored.message.messageID, stored.message.registrationToken.rawValue])
        }
        for line in table.lines(width: nil) {
            #expect(line.unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
        }
        for stored in page.messages {
            for line in JSONIndent.lines(stored.message.data ?? []) {
                #expect(line.unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
            }
        }
    }
}

/// What a terminal may act on, by rules of this file's own.
enum Danger {
    static func isDangerous(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF, 0xE0000...0xE007F: true
        default: false
        }
    }
}

/// A strict reader of RFC 4180; an empty field without quotes is nil.
enum CSV {
    static func read(_ bytes: [UInt8]) -> [[String?]]? {
        var records: [[String?]] = []
        var record: [String?] = []
        var index = 0
        while index < bytes.count {
            var field: [UInt8] = []
            let isQuoted = bytes[index] == 0x22
            if isQuoted {
                index += 1
                while true {
                    guard index < bytes.count else { return nil }
                    if bytes[index] == 0x22 {
                        guard index + 1 < bytes.count, bytes[index + 1] == 0x22 else { break }
                        index += 1
                    }
                    field.append(bytes[index])
                    index += 1
                }
                index += 1
            } else {
                while index < bytes.count, ![0x2C, 0x0D, 0x0A].contains(bytes[index]) {
                    guard bytes[index] != 0x22 else { return nil }
                    field.append(bytes[index])
                    index += 1
                }
            }
            record.append(field.isEmpty && !isQuoted ? nil : String(decoding: field, as: UTF8.self))
            guard index < bytes.count else { return nil }
            if bytes[index] == 0x2C {
                index += 1
            } else {
                guard bytes[index...].starts(with: [0x0D, 0x0A]) else { return nil }
                index += 2
                records.append(record)
                record = []
            }
        }
        return record.isEmpty ? records : nil
    }
}
