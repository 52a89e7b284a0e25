/// How the end of a subprocess's answer is known.
enum AnswerShape: Sendable, Hashable {
    /// A line of at most so many bytes, without its newline.
    case line(limit: Int)
    /// A length (32 bits, little-endian) and so many bytes, at most the limit.
    case frame(limit: Int)
}

/// The rules of talking with a long-lived subprocess: one request to it, then one answer from it.
///
/// Pure; ``ExecSession`` acts on what it returns. The first violation ends the conversation: a late or unexpected answer could
/// otherwise be taken for the next message's.
struct ExecConversation {
    /// Why a conversation ended.
    enum End: Sendable, Hashable {
        /// The process closed its standard output, usually by ending.
        case closed
        /// It wrote more than one answer, or an unexpected one.
        case unasked
        /// Its answer grew over the limit.
        case tooLong
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
    private let shape: AnswerShape

    /// A conversation whose answers have this shape.
    init(_ shape: AnswerShape) {
        self.shape = shape
    }

    /// A conversation that takes lines of at most this many bytes.
    init(limit: Int) {
        self.init(.line(limit: limit))
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
        case .awaiting: preconditionFailure("a session has one message at a time")
        case .ended(let end): return .refuse(end)
        }
    }

    /// What to do with bytes from the process.
    enum ReceiveAction: Hashable {
        /// Nothing, more must come.
        case wait
        /// Give this answer, without what marks its end, to whoever waits.
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
        case .awaiting(var part):
            // The state's own copy goes first: the part is then extended in place.
            state = .idle
            let step =
                switch shape {
                case .line(let limit): Self.line(&part, bytes, limit)
                case .frame(let limit): Self.frame(&part, bytes, limit)
                }
            switch step {
            case .wait: state = .awaiting(part)
            case .end(let end): state = .ended(end)
            case .answer, .ignore: break
            }
            return step
        case .ended: return .ignore
        }
    }

    private static func line(_ part: inout [UInt8], _ bytes: some Collection<UInt8>, _ limit: Int) -> ReceiveAction {
        guard let newline = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            guard part.count + bytes.count <= limit else { return .end(.tooLong) }
            part.append(contentsOf: bytes)
            return .wait
        }
        guard bytes.index(after: newline) == bytes.endIndex else { return .end(.unasked) }
        part.append(contentsOf: bytes[..<newline])
        return part.count <= limit ? .answer(part) : .end(.tooLong)
    }

    private static func frame(_ part: inout [UInt8], _ bytes: some Collection<UInt8>, _ limit: Int) -> ReceiveAction {
        guard part.count + bytes.count <= limit + 4 else { return .end(.tooLong) }
        part.append(contentsOf: bytes)
        guard part.count >= 4 else { return .wait }
        let length = part.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        guard length <= limit else { return .end(.tooLong) }
        guard part.count >= length + 4 else { return .wait }
        return part.count == length + 4 ? .answer(Array(part.dropFirst(4))) : .end(.unasked)
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
