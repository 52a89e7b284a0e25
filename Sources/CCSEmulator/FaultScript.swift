/// The text form of fault rules: one a line, or several separated by semicolons; `#` begins a comment.
///
///     after 100: drain               # once, with the 100th delivery
///     every 50: duplicate            # with each 50th
///     every 200: torn 20ms
///     connection 1-3: refuse         # the first three connections
///
/// `FaultScript.reference` lists every fault with its argument.
package struct FaultScript: Sendable, Equatable {
    package var rules: [FaultRule]

    package init(rules: [FaultRule] = []) {
        self.rules = rules
    }

    /// A syntax error in a script.
    package struct Problem: Error, Sendable, Equatable, CustomStringConvertible {
        package var line: Int
        /// What is wrong and what would be right.
        package var message: String

        package var description: String { "fault script, line \(line): \(message)" }
    }

    /// Parses a script; throws its first error.
    package init(parsing text: String) throws(Problem) {
        rules = []
        // By property: Swift treats CR LF as one character that equals neither.
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            let code = line.prefix { $0 != "#" }
            for statement in code.split(separator: ";") {
                let words = statement.split { $0 == " " || $0 == "\t" || $0 == "\r" }
                guard !words.isEmpty else { continue }
                rules.append(try Self.rule(String(statement), line: index + 1))
            }
        }
    }

    /// Every fault's name with its argument and meaning, for `--help` and error messages.
    package static let reference: [(usage: String, meaning: String)] = [
        ("duplicate", "deliver the message twice"),
        ("redeliver", "deliver it on another connection as well, at once"),
        ("conflict", "deliver another message with the same id"),
        ("torn [TIME]", "write half of the stanza, wait (20ms), write the rest"),
        ("bytewise", "write the stanza byte by byte"),
        ("close-before-ack", "close at once behind the message"),
        ("close", "end the stream in order"),
        ("reset", "cut the connection with a TCP reset"),
        ("cut", "close the socket without the stream's end and without close_notify"),
        ("drain", "CONNECTION_DRAINING as a control message; close later"),
        ("drain-nack", "CONNECTION_DRAINING as a nack; close later"),
        ("stall [TIME]", "neither read nor write for a while (2s)"),
        ("slow-acks [TIME]", "read nothing for a while (2s)"),
        ("half-dead", "stop sending and answering until the end"),
        ("bad-xml [NAME]", "send XML that must be refused, each in turn; a wrong NAME lists them"),
        ("odd-json [NAME]", "send an odd message, each in turn; a wrong NAME lists them"),
        ("stream-error [CONDITION]", "end the stream with an error (system-shutdown)"),
        ("stanza-error", "refuse an ack that was never sent, with 406"),
        ("nack [CODE]", "send a nack (BAD_ACK)"),
        ("whitespace", "send a single space"),
        ("ping", "send an XEP-0199 ping"),
        ("noise", "send stanzas that the receiver must ignore"),
        ("refuse", "connection only: refuse the credentials"),
        ("close-after-auth", "connection only: close after the SASL success"),
        ("close-after-bind", "connection only: close after the bind result"),
        ("mute", "connection only: never answer anything"),
    ]

    private static func rule(_ statement: String, line: Int) throws(Problem) -> FaultRule {
        let parts = statement.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw Problem(line: line, message: "expected 'after N: fault', 'every N: fault' or 'connection N: fault'")
        }
        let trigger = try trigger(words(parts[0]), line: line)
        let fault = try fault(words(parts[1]), line: line)
        if case .connection = trigger, !fault.isForNegotiation {
            throw Problem(
                line: line,
                message: "this fault needs a delivery: write 'after N:' or 'every N:'; a connection can have "
                    + "refuse, close-after-auth, close-after-bind, mute"
            )
        }
        if fault.isForNegotiation {
            guard case .connection = trigger else {
                throw Problem(line: line, message: "this fault belongs to a connection: write 'connection N:'")
            }
        }
        return FaultRule(trigger, fault)
    }

    private static func words(_ text: Substring) -> [Substring] {
        text.split { $0 == " " || $0 == "\t" || $0 == "\r" }
    }

    private static func trigger(_ words: [Substring], line: Int) throws(Problem) -> FaultTrigger {
        guard words.count == 2 else {
            throw Problem(line: line, message: "expected 'after N', 'every N' or 'connection N' before the colon")
        }
        switch words[0] {
        case "after": return .after(try number(words[1], line: line))
        case "every": return .every(try number(words[1], line: line))
        case "connection":
            let ends = words[1].split(separator: "-", maxSplits: 1)
            let first = try number(ends.first ?? "", line: line)
            let last = ends.count == 2 ? try number(ends[1], line: line) : first
            guard first <= last else { throw Problem(line: line, message: "\(words[1]): the first is above the last") }
            return .connection(first...last)
        default:
            throw Problem(line: line, message: "'\(words[0])' is not a trigger: use after, every or connection")
        }
    }

    private static func number(_ word: Substring, line: Int) throws(Problem) -> Int {
        guard let value = Int(word), value > 0 else {
            throw Problem(line: line, message: "'\(word)' is not a number above 0")
        }
        return value
    }

    private static func fault(_ words: [Substring], line: Int) throws(Problem) -> Fault {
        guard let name = words.first else { throw Problem(line: line, message: "no fault after the colon") }
        guard words.count <= 2 else { throw Problem(line: line, message: "'\(words[2])' is one word too many") }
        let argument = words.count == 2 ? String(words[1]) : nil
        if let plain = plainFaults[String(name)] {
            if let argument { throw Problem(line: line, message: "\(name) takes no argument, '\(argument)' is given") }
            return plain
        }
        switch name {
        case "torn": return .torn(milliseconds: try milliseconds(argument, default: 20, line: line))
        case "stall": return .stall(milliseconds: try milliseconds(argument, default: 2000, line: line))
        case "slow-acks": return .slowAcks(milliseconds: try milliseconds(argument, default: 2000, line: line))
        case "stream-error": return .streamError(try token(argument ?? "system-shutdown", line: line))
        case "nack": return .nack(try token(argument ?? "BAD_ACK", line: line))
        case "bad-xml":
            if let argument, HostileXML.named(argument) == nil {
                let names = HostileXML.names.joined(separator: ", ")
                throw Problem(line: line, message: "'\(argument)' is not a known bad XML: use one of \(names)")
            }
            return .badXML(argument)
        case "odd-json":
            if let argument, OddMessage.named(argument) == nil {
                let names = OddMessage.all.map(\.name).joined(separator: ", ")
                throw Problem(line: line, message: "'\(argument)' is not a known odd message: use one of \(names)")
            }
            return .oddJSON(argument)
        default:
            let names = reference.map { String($0.usage.prefix { $0 != " " }) }.joined(separator: ", ")
            throw Problem(line: line, message: "'\(name)' is not a fault: use one of \(names)")
        }
    }

    private static let plainFaults: [String: Fault] = [
        "duplicate": .duplicate, "redeliver": .redeliver, "conflict": .conflict, "bytewise": .bytewise,
        "close-before-ack": .closeBeforeAck, "close": .close, "reset": .reset, "cut": .cut, "drain": .drain,
        "drain-nack": .drainNack, "half-dead": .halfDead, "stanza-error": .stanzaError, "whitespace": .whitespace,
        "ping": .ping, "noise": .noise, "refuse": .refuse, "close-after-auth": .closeAfterAuth,
        "close-after-bind": .closeAfterBind, "mute": .mute,
    ]

    /// Validates a stream error condition or nack code, which goes unescaped into XML or JSON.
    private static func token(_ word: String, line: Int) throws(Problem) -> String {
        let isToken = word.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"),
                UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isToken else { throw Problem(line: line, message: "'\(word)' may hold letters, hyphens and underscores") }
        return word
    }

    private static func milliseconds(_ word: String?, default: Int, line: Int) throws(Problem) -> Int {
        guard let word else { return `default` }
        let digits = word.prefix { $0.isNumber }
        guard let value = Int(digits), value >= 0, value <= 3_600_000 else {
            throw Problem(line: line, message: "'\(word)' is not a time: write 200ms or 2s")
        }
        switch word.dropFirst(digits.count) {
        case "ms": return value
        case "s": return value * 1000
        default: throw Problem(line: line, message: "'\(word)' is not a time: write 200ms or 2s")
        }
    }
}
