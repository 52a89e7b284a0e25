/// The rules of talking with a long-lived subprocess: one line to it, then one line from it.
///
/// Pure; ``ExecSession`` acts on what it returns. The first violation ends the conversation: a late or unexpected answer could
/// otherwise be taken for the next message's.
struct ExecConversation {
    /// Why a conversation ended.
    enum End: Sendable, Hashable {
        /// The process closed its standard output, usually by ending.
        case closed
        /// It wrote more than one line, or an unexpected one.
        case unasked
        /// Its line grew over the limit.
        case lineTooLong
        /// It gave no answer in time.
        case timedOut
        /// We ended it.
        case stopped
    }

    private enum State {
        /// Nothing is asked. Goes to `awaiting` and `ended`.
        case idle
        /// A message has been written; holds the part of the answer that has come. Goes to `idle` and `ended`.
        case awaiting([UInt8])
        /// No more messages.
        case ended(End)
    }

    private var state = State.idle
    private let limit: Int

    /// A conversation that takes answers of at most this many bytes.
    init(limit: Int) {
        self.limit = limit
    }

    /// What to do with a message that is to be sent.
    enum SendAction: Hashable {
        /// Write it.
        case write
        /// Refuse it: the conversation has ended, and the process has not seen the message.
        case refuse(End)
    }

    /// A message is to be sent.
    ///
    /// - Precondition: None is awaiting its answer.
    mutating func send() -> SendAction {
        switch state {
        case .idle:
            state = .awaiting([])
            return .write
        case .awaiting: preconditionFailure("an exec session has one message at a time")
        case .ended(let end): return .refuse(end)
        }
    }

    /// What to do with bytes from the process.
    enum ReceiveAction: Hashable {
        /// Nothing, more must come.
        case wait
        /// Give this line, without its newline, to whoever waits.
        case answer([UInt8])
        /// Kill the process and tell whoever waits, if anyone does.
        case end(End)
        /// Nothing: it has ended already.
        case ignore
    }

    /// Bytes came from the process.
    mutating func receive(_ bytes: some Collection<UInt8>) -> ReceiveAction {
        switch state {
        case .idle:
            state = .ended(.unasked)
            return .end(.unasked)
        case .awaiting(var line):
            guard let newline = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
                guard line.count + bytes.count <= limit else {
                    state = .ended(.lineTooLong)
                    return .end(.lineTooLong)
                }
                line.append(contentsOf: bytes)
                state = .awaiting(line)
                return .wait
            }
            guard bytes.index(after: newline) == bytes.endIndex else {
                state = .ended(.unasked)
                return .end(.unasked)
            }
            line.append(contentsOf: bytes[..<newline])
            guard line.count <= limit else {
                state = .ended(.lineTooLong)
                return .end(.lineTooLong)
            }
            state = .idle
            return .answer(line)
        case .ended: return .ignore
        }
    }

    /// The conversation ends for a reason outside it.
    ///
    /// - Returns: Whether it had not ended before.
    mutating func end(_ end: End) -> Bool {
        if case .ended = state { return false }
        state = .ended(end)
        return true
    }

    /// Whether a message can be sent.
    var isOpen: Bool {
        if case .ended = state { false } else { true }
    }
}
