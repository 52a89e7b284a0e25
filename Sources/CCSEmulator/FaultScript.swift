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

    package init(rules: [FaultRule] = []) { self.rules = rules }

    package struct Problem: Error, Sendable, Equatable, CustomStringConvertible {
        package var line: Int
        package var message: String

        package var description: String { "fault script, line \(line): \(message)" }
    }

    package init(parsing text: String) throws(Problem) {
        rules = []
        // By property: Swift treats CR LF as one character that equals neither.
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            let code = line.prefix { $0 != "#" }
            for statement in code.split(separator: ";") where !Self.words(statement).isEmpty {
                rules.append(try Self.rule(String(statement), line: index + 1))
            }
        }
    }

    /// How a fault is made of its argument.
    private enum Form: Sendable {
        case plain(Fault)
        /// Milliseconds, and how many by default.
        case time(Int, @Sendable (Int) -> Fault)
        case word(String, @Sendable (String) -> Fault)
        /// One of these names; they are listed in errors by their kind.
        case named(String, [String], @Sendable (String?) -> Fault)
    }

    private static let faults: [(usage: String, meaning: String, form: Form)] = [
        ("duplicate", "deliver the message twice", .plain(.duplicate)),
        ("redeliver", "deliver it on another connection as well, at once", .plain(.redeliver)),
        ("conflict", "deliver another message with the same id", .plain(.conflict)),
        ("torn [TIME]", "write half of the stanza, wait (20ms), write the rest", .time(20, Fault.torn)),
        ("bytewise", "write the stanza byte by byte", .plain(.bytewise)),
        ("close-before-ack", "close at once behind the message", .plain(.closeBeforeAck)),
        ("close", "end the stream in order", .plain(.close)),
        ("reset", "cut the connection with a TCP reset", .plain(.reset)),
        ("cut", "close the socket without the stream's end and without close_notify", .plain(.cut)),
        ("drain", "CONNECTION_DRAINING as a control message; close later", .plain(.drain)),
        ("drain-nack", "CONNECTION_DRAINING as a nack; close later", .plain(.drainNack)),
        ("stall [TIME]", "neither read nor write for a while (2s)", .time(2000, Fault.stall)),
        ("slow-acks [TIME]", "read nothing for a while (2s)", .time(2000, Fault.slowAcks)),
        ("half-dead", "stop sending and answering until the end", .plain(.halfDead)),
        (
            "bad-xml [NAME]", "send XML that must be refused, each in turn; a wrong NAME lists them",
            .named("bad XML", HostileXML.names, Fault.badXML)
        ),
        (
            "odd-json [NAME]", "send an odd message, each in turn; a wrong NAME lists them",
            .named("odd message", OddMessage.all.map(\.name), Fault.oddJSON)
        ),
        (
            "stream-error [CONDITION]", "end the stream with an error (system-shutdown)",
            .word("system-shutdown", Fault.streamError)
        ),
        ("stanza-error", "refuse an ack that was never sent, with 406", .plain(.stanzaError)),
        ("nack [CODE]", "send a nack (BAD_ACK)", .word("BAD_ACK", Fault.nack)),
        ("whitespace", "send a single space", .plain(.whitespace)),
        ("ping", "send an XEP-0199 ping", .plain(.ping)),
        ("noise", "send stanzas that the receiver must ignore", .plain(.noise)),
        ("refuse", "connection only: refuse the credentials", .plain(.refuse)),
        ("close-after-auth", "connection only: close after the SASL success", .plain(.closeAfterAuth)),
        ("close-after-bind", "connection only: close after the bind result", .plain(.closeAfterBind)),
        ("mute", "connection only: never answer anything", .plain(.mute)),
    ]

    /// Every fault's name with its argument and meaning, for `--help` and error messages.
    package static let reference = faults.map { (usage: $0.usage, meaning: $0.meaning) }

    private static func rule(_ statement: String, line: Int) throws(Problem) -> FaultRule {
        let parts = statement.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw Problem(line: line, message: "expected 'after N: fault', 'every N: fault' or 'connection N: fault'")
        }
        let trigger = try trigger(words(parts[0]), line: line)
        let fault = try fault(words(parts[1]), line: line)
        switch (trigger, fault.isForNegotiation) {
        case (.connection, true), (.after, false), (.every, false): return FaultRule(trigger, fault)
        case (.connection, false):
            throw Problem(
                line: line,
                message: "this fault needs a delivery: write 'after N:' or 'every N:'; a connection can have "
                    + "refuse, close-after-auth, close-after-bind, mute"
            )
        case (.after, true), (.every, true):
            throw Problem(line: line, message: "this fault belongs to a connection: write 'connection N:'")
        }
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
        guard let fault = faults.first(where: { $0.usage.prefix { $0 != " " } == name }) else {
            let names = reference.map { String($0.usage.prefix { $0 != " " }) }.joined(separator: ", ")
            throw Problem(line: line, message: "'\(name)' is not a fault: use one of \(names)")
        }
        switch fault.form {
        case .plain(let fault):
            if let argument { throw Problem(line: line, message: "\(name) takes no argument, '\(argument)' is given") }
            return fault
        case .time(let usual, let make): return make(try milliseconds(argument, default: usual, line: line))
        case .word(let usual, let make): return make(try token(argument ?? usual, line: line))
        case .named(let kind, let names, let make):
            if let argument, !names.contains(argument) {
                let list = names.joined(separator: ", ")
                throw Problem(line: line, message: "'\(argument)' is not a known \(kind): use one of \(list)")
            }
            return make(argument)
        }
    }

    /// Validates a stream error condition or nack code, which goes unescaped into XML or JSON.
    private static func token(_ word: String, line: Int) throws(Problem) -> String {
        let isToken = word.allSatisfy { $0.isASCII && $0.isLetter || $0 == "-" || $0 == "_" }
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
