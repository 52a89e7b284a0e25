/// How a subprocess's answer is delimited.
enum AnswerShape: Sendable, Hashable {
    /// A line of at most this many bytes, without its newline.
    case line(limit: Int)
    /// A length (32 bits, little-endian) and as many bytes, up to the limit.
    case frame(limit: Int)
}

/// The protocol with a long-lived subprocess: one request, then one answer.
///
/// Pure; ``ExecSession`` acts on its results. The first violation ends the conversation: a late or unexpected answer
/// could otherwise be taken for the next message's.
struct ExecConversation {
    enum End: Sendable, Hashable {
        /// The process closed its standard output, usually by ending.
        case closed
        /// It wrote more than one answer, or an unexpected one.
        case unasked
        case tooLong
        case timedOut
        case stopped
    }

    private enum State {
        /// No request is pending. Goes to `awaiting` and `ended`.
        case idle
        /// A request has been written; holds the answer's part received so far. Goes to `idle` and `ended`.
        case awaiting([UInt8])
        case ended(End)
    }

    private var state = State.idle
    private let shape: AnswerShape

    init(_ shape: AnswerShape) {
        self.shape = shape
    }

    enum SendAction: Hashable {
        case write
        /// Refuse the message: the conversation has ended, and the process has not seen it.
        case refuse(End)
    }

    /// Begins a request; none may be pending.
    mutating func send() -> SendAction {
        switch state {
        case .idle:
            state = .awaiting([])
            return .write
        case .awaiting: preconditionFailure("a session has one message at a time")
        case .ended(let end): return .refuse(end)
        }
    }

    enum ReceiveAction: Hashable {
        case wait
        /// Pass this answer, without its delimiter, to the waiter.
        case answer([UInt8])
        /// Kill the process and tell the waiter, if any.
        case end(End)
        /// Do nothing: the conversation has ended.
        case ignore
    }

    mutating func receive(_ bytes: some Collection<UInt8>) -> ReceiveAction {
        switch state {
        case .idle:
            state = .ended(.unasked)
            return .end(.unasked)
        case .awaiting(var part):
            // Drops the state's copy first, so that the part is extended in place.
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

    /// Ends the conversation for an outside reason; false if it had already ended.
    mutating func end(_ end: End) -> Bool {
        if case .ended = state { return false }
        state = .ended(end)
        return true
    }
}
