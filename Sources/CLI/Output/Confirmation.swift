import Glibc
import Querying
import Vocabulary
import Worker

extension Console {
    /// Asks before something that cannot be undone.
    ///
    /// - Parameters:
    ///   - question: What is about to happen.
    ///   - isConfirmed: Whether `--yes` was given, which answers the question.
    ///   - reason: Why the command asks, for the error where there is no terminal to ask on.
    /// - Throws: A usage error without a terminal; a negative answer where the answer is not yes.
    func confirm(_ question: String, yes isConfirmed: Bool, because reason: String) throws(CommandFailure) {
        guard !isConfirmed else { return }
        guard input.isTerminal, errors.isTerminal else {
            throw CommandFailure(.usage, "\(reason): add --yes where there is no terminal to ask on")
        }
        write(TerminalText.escape(question) + " [y/N] ", to: errors)
        guard ["y", "yes"].contains(readAnswer().lowercased()) else {
            throw CommandFailure(.negative, "nothing was changed")
        }
    }

    /// One line, byte by byte: later input is left for the next reader.
    private func readAnswer() -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < 100 {
            let count = read(input.descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != UInt8(ascii: "\n") else { break }
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self)
    }
}
