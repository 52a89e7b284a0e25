package import Vocabulary
package import XMLWire

/// Why a session ended, unless the transport was lost.
package enum SessionOutcome: Sendable, Equatable {
    case closedByUs
    case closedByPeer
    case streamError(StreamError)
    /// Unreadable XML; answered where the server counts the stanza as handled, and so does not send it again.
    case violation(XMLStreamError, isAnswered: Bool)
    case silent
    /// The server never answered our request for stream management.
    case unmanaged
    /// The server's count of our stanzas is impossible.
    case miscounted
}

// The end.
extension Session {
    /// How long we wait for the peer's `</stream:stream>` after ours, and, if the peer closes first, for our own
    /// messages in flight.
    static let closeTimeout = Duration.seconds(2)

    package enum EndStep: Sendable, Equatable {
        case none
        /// Set the timer, if any; the next step comes when the messages in flight have settled.
        case settle(SessionTimer?)
        /// Send these bytes, which end with our closing tag, and set the timer for the peer's.
        case close([UInt8], SessionTimer)
        /// Send these bytes, if any, and close the transport.
        case end([UInt8], SessionOutcome)
    }

    /// Ends the session in order, after settling what is in flight.
    package mutating func close() -> EndStep {
        guard case .open = state else { return .none }
        return leave(.ours)
    }

    /// Ends the session without waiting for what is in flight; the peer sends that again.
    package mutating func closeNow() -> EndStep {
        switch state {
        case .open: finish(.ours)
        case .finishing(let cause): finish(cause)
        case .closing, .ended: .none
        }
    }

    /// Handles the peer's `</stream:stream>`; acks for what is in flight are still sent for a while.
    package mutating func peerClosed() -> EndStep {
        switch state {
        case .open, .finishing(.ours): return leave(.peers)
        case .closing:
            state = .ended
            return .end([], .closedByUs)
        case .finishing(.peers), .finishing(.refusal), .ended: return .none
        }
    }

    /// Ends the stream because the peer sent unreadable XML; returns also whether to count a stanza as `other`.
    package mutating func violated(_ error: XMLStreamError, inStanza: Bool) -> (isCounted: Bool, step: EndStep) {
        switch state {
        case .open where inStanza && management.isActive:
            // The server would send an unanswered stanza again at the next login, which would end in the same way: so it
            // is answered for, after what came before it.
            management.noted()
            return (true, leave(.refusal(error)))
        case .open, .finishing(.ours), .finishing(.peers), .closing:
            return (false, .end(farewell(error), .violation(error, isAnswered: false)))
        case .finishing(.refusal), .ended:
            return (false, .none)
        }
    }

    /// Handles the loss or abandonment of the transport.
    package mutating func transportClosed() {
        // An orderly end, or one with an error, is final for the server too.
        if case .open = state { isSuspended = management.grant != nil }
        state = .ended
    }

    /// The next step after a commit, or after reading was paused or resumed.
    package struct Settlement: Sendable, Equatable {
        package var bytes: [UInt8] = []
        package var timer: SessionTimer?
        package var step = EndStep.none
    }

    /// Counts committed messages of this session, each once, whose acks are written; the messages themselves are asked
    /// for only if the connection counts stanzas.
    package mutating func committed(
        _ count: Int,
        size: Int,
        now: UInt64,
        messages: () -> [IncomingMessage]
    ) -> Settlement {
        let resumes = window.settled(messages: count, bytes: size)
        if management.isActive { management.settled(messages()) }
        var settlement = Settlement()
        switch state {
        case .open:
            settlement.bytes = management.progress() ?? []
            guard resumes, !isBlocked else { break }
            let next = readingPaused(false, now: now)
            settlement.timer = next.timer
            settlement.bytes += next.bytes
        // The final `<a/>` says how far we answer.
        case .finishing(let cause) where window.isEmpty: settlement.step = finish(cause)
        case .finishing, .closing, .ended: break
        }
        return settlement
    }

    /// The session's end for the reconnect policy; without an outcome the transport was lost.
    package func ending(after outcome: SessionOutcome?, now: UInt64) -> ReconnectPolicy.Ending {
        let time = boundTime(now: now)
        switch outcome {
        // Whoever breaks the rules does it again at once: always a failure, however long the session was.
        case .violation: return .violated(afterStanzas: hasTakenStanza)
        case .unmanaged, .miscounted: return .session(bound: time, error: .policyViolation)
        // What it objects to may be what the lost connection left in its parser: a new stream is wanted at once.
        case .silent where !isHeard: return .unheard
        case .streamError(let error) where !isHeard && [.notWellFormed, .policyViolation].contains(error.condition):
            return .unheard
        case .streamError(let error): return .session(bound: time, error: error.condition)
        case .closedByUs, .closedByPeer, .silent, nil: return .session(bound: time, error: nil)
        }
    }

    // MARK: Steps

    private mutating func leave(_ cause: Cause) -> EndStep {
        state = .finishing(cause)
        // Makes the keepalive's timer a late one.
        timer.cancel()
        if window.isEmpty { return finish(cause) }
        // Our own end waits for the database without limit; a peer that has closed waits for our closing tag.
        guard case .peers = cause else { return .settle(nil) }
        return .settle(timer.set(after: Session.closeTimeout))
    }

    private mutating func finish(_ cause: Cause) -> EndStep {
        switch cause {
        case .ours:
            let bytes = goodbye()
            state = .closing
            return .close(bytes, timer.set(after: Session.closeTimeout))
        case .peers:
            let bytes = goodbye()
            state = .ended
            return .end(bytes, .closedByPeer)
        case .refusal(let error):
            return .end(farewell(error), .violation(error, isAnswered: true))
        }
    }

    /// The final `<a/>`, and the end of our stream.
    mutating func goodbye() -> [UInt8] { management.last() + Array("</stream:stream>".utf8) }

    /// The final `<a/>` and a stream error; empty if our stream is closed already.
    mutating func farewell(_ condition: StreamErrorCondition) -> [UInt8] {
        defer { state = .ended }
        return canSend ? management.last() + StreamError.farewell(condition) : []
    }

    private mutating func farewell(_ error: XMLStreamError) -> [UInt8] {
        farewell(StreamErrorCondition(rawValue: "\(error.condition)") ?? .notWellFormed)
    }
}
