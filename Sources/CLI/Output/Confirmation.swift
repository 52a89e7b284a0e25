import Foundation
import Glibc
import Vocabulary

extension Terminal {
    /// Asks before something irreversible, unless `--yes` was given; `reason` is for the error without a terminal.
    func confirm(_ question: String, yes isConfirmed: Bool, because reason: String) throws(CommandFailure) {
        guard !isConfirmed else { return }
        guard input.isTerminal, errors.isTerminal else {
            throw CommandFailure(.usage, "\(reason): add --yes where there is no terminal to ask on")
        }
        write(TerminalText.escape(question) + " [y/N] ", to: errors)
        guard ["y", "yes"].contains(readAnswer(atMost: 100)?.lowercased()) else {
            throw CommandFailure(.negative, "nothing was changed")
        }
    }

    /// Asks for a value on a terminal; nil at the end of input.
    ///
    /// `standard` is the default for an empty answer.
    func ask(_ question: String, standard: String?) -> String? {
        write(TerminalText.escape(question) + (standard.map { " [\($0)]" } ?? "") + ": ", to: errors)
        return readAnswer(atMost: 4_096)?.trimmingCharacters(in: CharacterSet(charactersIn: " \t\r"))
    }

    /// Reads one line byte by byte, leaving later input to the next reader; nil at the end of input.
    private func readAnswer(atMost limit: Int) -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < limit {
            let count = read(input.descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return line.isEmpty ? nil : String(decoding: line, as: UTF8.self) }
            guard byte != UInt8(ascii: "\n") else { break }
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self)
    }
}

extension Terminal {
    /// Asks before something that affects more than 100 rows.
    func confirmMany(_ count: Int, _ question: String, yes isConfirmed: Bool) throws(CommandFailure) {
        guard count > 100 else { return }
        try confirm(question, yes: isConfirmed, because: "this concerns \(Amount.count(count)), more than 100")
    }
}
