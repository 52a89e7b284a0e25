import Testing

@testable import DNS

/// Messages as name servers write them, and as they must not.
@Suite("Answers of name servers") struct ServiceAnswerTests {
    static let question = "_xmpp-client._tcp.example.org"

    static func name(_ text: String) -> [UInt8] {
        text.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + $0.utf8 } + [0]
    }

    static func number(_ value: Int) -> [UInt8] { [UInt8(value >> 8 & 255), UInt8(value & 255)] }

    static func record(_ owner: [UInt8], _ type: Int, _ data: [UInt8], class: Int = 1) -> [UInt8] {
        var record: [UInt8] = owner + number(type)
        record += number(`class`) + [0, 0, 0, 9] as [UInt8]
        return record + number(data.count) + data
    }

    static func service(_ numbers: (Int, Int, Int), _ target: [UInt8], at owner: [UInt8] = [0xc0, 12]) -> [UInt8] {
        let data: [UInt8] = number(numbers.0) + number(numbers.1) + number(numbers.2)
        return record(owner, 33, data + target)
    }

    static func message(_ records: [[UInt8]], flags: [UInt8] = [0x81, 0x80], count: Int? = nil) -> [UInt8] {
        var message: [UInt8] = [7, 7] + flags + [0, 1]
        message += number(count ?? records.count) + [0, 0, 0, 0] as [UInt8]
        message += name(question) + [0, 33, 0, 1] as [UInt8]
        return message + Array(records.joined())
    }

    static func read(_ message: [UInt8]) throws(DNSError) -> ServiceAnswer {
        guard let name = DNSName(question) else { throw .badName }
        return try ServiceAnswer(message[...], to: name)
    }

    @Test("records are read, with compressed names and without, in any case")
    func records() throws {
        // Where "example" begins: behind the header and two labels with their lengths.
        let pointer: UInt8 = 12 + 13 + 5
        let message = Self.message([
            Self.service((10, 5, 5222), Self.name("a.example.org")),
            Self.service((20, 0, 5223), [1, 0x42, 0xc0, pointer], at: Self.name("_XMPP-client._TCP.Example.ORG")),
        ])
        let wanted = [
            ServiceRecord(priority: 10, weight: 5, port: 5222, target: "a.example.org"),
            ServiceRecord(priority: 20, weight: 0, port: 5223, target: "b.example.org"),
        ]
        #expect(try Self.read(message) == .records(wanted))
        // What follows the answers, and records of other kinds, names and classes, count for nothing.
        let more = Self.message([
            Self.record([0xc0, 12], 46, [1, 2, 3]), Self.service((10, 5, 5222), Self.name("a.example.org")),
            Self.service((0, 0, 1), Self.name("evil.test"), at: Self.name("_xmpp-client._tcp.evil.test")),
            Self.record([0xc0, 12], 33, [9], class: 3),
            Self.service((20, 0, 5223), Self.name("b.example.org")),
        ])
        #expect(try Self.read(more + [1, 2, 3]) == .records(wanted))
    }

    @Test("no such name, no such records, and a service that is not offered are three things")
    func absence() throws {
        #expect(try Self.read(Self.message([], flags: [0x81, 0x83])) == .none)
        #expect(try Self.read(Self.message([])) == .none)
        #expect(try Self.read(Self.message([Self.service((0, 0, 0), [0])])) == .declined)
        #expect(try Self.read(Self.message([Self.service((0, 0, 5222), [0])])) == .declined)
        // Beside a record that names a host, the root says nothing.
        let both = Self.message([Self.service((0, 0, 0), [0]), Self.service((1, 0, 1), Self.name("h.test"))])
        #expect(
            try Self.read(both) == .records([ServiceRecord(priority: 1, weight: 0, port: 1, target: "h.test")])
        )
        // A host that nobody can be asked about, and a port that is none.
        let names: [[UInt8]] = [Self.name("a b.test"), [3, 0x61, 0x2e, 0x62, 0], [1, 0, 0], [2, 0xc3, 0xa9, 0]]
        for bad in names {
            #expect(try Self.read(Self.message([Self.service((1, 0, 1), bad)])) == .none, "\(bad)")
        }
        #expect(try Self.read(Self.message([Self.service((1, 0, 0), Self.name("h.test"))])) == .none)
    }

    @Test("errors and incomplete answers are told from no records")
    func errors() {
        for code in [1, 2, 4, 5, 9] as [UInt8] {
            #expect(throws: DNSError.refused(code: code)) {
                try Self.read(Self.message([], flags: [0x81, 0x80 | code]))
            }
        }
        #expect(throws: DNSError.truncated) { try Self.read(Self.message([], flags: [0x83, 0x80])) }
        // A question, another operation, no question, another question.
        #expect(throws: DNSError.malformed) { try Self.read(Self.message([], flags: [0x01, 0x80])) }
        #expect(throws: DNSError.malformed) { try Self.read(Self.message([], flags: [0xa1, 0x80])) }
        var other = Self.message([])
        other[5] = 0
        #expect(throws: DNSError.malformed) { try Self.read(other) }
        other[5] = 1
        other[13] = UInt8(ascii: "x")
        #expect(throws: DNSError.malformed) { try Self.read(other) }
        #expect(throws: DNSError.malformed) { try Self.read(Self.message([], count: 1)) }
        #expect(throws: DNSError.malformed) { try Self.read([]) }
    }

    @Test("an alias is followed, so far; a circle of them is an error")
    func aliases() throws {
        func alias(_ from: String, _ to: String) -> [UInt8] { Self.record(Self.name(from), 5, Self.name(to)) }
        let end = Self.service((1, 2, 3), Self.name("h.test"), at: Self.name("n.test"))
        let found = ServiceAnswer.records([ServiceRecord(priority: 1, weight: 2, port: 3, target: "h.test")])
        #expect(try Self.read(Self.message([alias(Self.question, "n.test"), end])) == found)
        #expect(try Self.read(Self.message([end, alias("m.test", "n.test"), alias(Self.question, "m.test")])) == found)
        #expect(throws: DNSError.aliasLoop) {
            try Self.read(Self.message([alias(Self.question, "m.test"), alias("m.test", Self.question), end]))
        }
        #expect(throws: DNSError.aliasLoop) { try Self.read(Self.message([alias(Self.question, Self.question)])) }
        let long = (0..<9).map {
            alias($0 == 0 ? Self.question : "c\($0).test", $0 == 8 ? "n.test" : "c\($0 + 1).test")
        }
        #expect(throws: DNSError.aliasLoop) { try Self.read(Self.message(long + [end])) }
        #expect(try Self.read(Self.message(Array(long.dropFirst()) + [end])) == .none)
    }

    @Test("names that lead in circles, forward, or on for too long are refused")
    func hostileNames() {
        // The answer's owner begins here.
        let begin = UInt8(Self.message([]).count)
        for owner in [
            [0xc0, begin], [0xc0, begin + 2], [0xff, 0xff], [1, 0x61, 0xc0, begin], [0xc0], [63], [0x40, 0], [0x80, 0],
        ] as [[UInt8]] {
            let rest: [UInt8] = [0, 33, 0, 1, 0, 0, 0, 9, 0, 0]
            let message = Self.message([owner + rest])
            #expect(throws: DNSError.malformed, "\(owner)") { try Self.read(message) }
        }
        let label: [UInt8] = [63] + [UInt8](repeating: 0x61, count: 63)
        let long: [UInt8] = label + label + label + label + [0]
        #expect(throws: DNSError.malformed) { try Self.read(Self.message([Self.record(long, 33, [])])) }
        let rest: [UInt8] = [61] + [UInt8](repeating: 0x61, count: 61) + [0]
        let most: [UInt8] = label + label + label + rest
        #expect(throws: Never.self) { try Self.read(Self.message([Self.record(most, 1, [1, 2, 3, 4])])) }
    }

    @Test("a record whose length is not that of what it holds is refused")
    func lengths() {
        let data: [UInt8] = Self.number(1) + Self.number(2) + Self.number(3) + Self.name("h.test")
        for length in 0..<(data.count + 9) where length != data.count {
            let head: [UInt8] = [0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 9]
            let record: [UInt8] = head + Self.number(length) + data
            #expect(throws: DNSError.malformed, "\(length)") { try Self.read(Self.message([record])) }
        }
    }

    @Test("torn at any byte, an answer is refused")
    func torn() throws {
        let whole = Self.message([
            Self.record([0xc0, 12], 5, Self.name("n.test")),
            Self.service((1, 2, 3), Self.name("h.test"), at: Self.name("n.test")),
        ])
        _ = try Self.read(whole)
        for count in 0..<whole.count {
            #expect(throws: DNSError.malformed, "\(count)") { try Self.read(Array(whole[..<count])) }
        }
    }

    @Test("no bytes make it crash, or go on for ever")
    func fuzzed() {
        var generator = SplitMix(state: 13)
        let whole = Self.message([
            Self.record([0xc0, 12], 5, Self.name("n.test")),
            Self.service((1, 2, 3), Self.name("h.test"), at: Self.name("n.test")),
            Self.service((1, 2, 3), [1, 0x61, 0xc0, 25]),
        ])
        var read = 0
        for _ in 0..<30_000 {
            var message = whole
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                let index = Int.random(in: 0..<message.count, using: &generator)
                message[index] = UInt8.random(in: 0...255, using: &generator)
            }
            if (try? Self.read(message)) != nil { read += 1 }
        }
        // Both happen: otherwise this would try nothing.
        #expect(read > 100 && read < 29_900)
    }

    @Test("a huge answer is bounded")
    func huge() throws {
        let records = (0..<2_500).map { Self.service(($0 % 7, 1, 5222), [1, UInt8(97 + $0 % 26), 0]) }
        let message = Self.message(records)
        #expect(message.count < 65_536)
        guard case .records(let read) = try Self.read(message) else {
            Issue.record("no records")
            return
        }
        #expect(read.count == ServiceAnswer.recordLimit)
    }
}

/// A small reproducible generator (SplitMix64).
struct SplitMix: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }
}
