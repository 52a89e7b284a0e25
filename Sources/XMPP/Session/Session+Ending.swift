package import Vocabulary
package import XMLWire

/// Why a session ended, where it was not the transport's end.
package enum SessionOutcome: Sendable, Equatable {
    /// We closed the stream in order.
    case closedByUs
    /// The peer closed the stream in order.
    case closedByPeer
    /// The peer sent a stream error.
    case streamError(StreamError)
    /// The peer sent what cannot be read.
    ///
    /// `isAnswered` under stream management, where the server takes the stanza for handled and does not send it again.
    case violation(XMLStreamError, isAnswered: Bool)
    /// The peer answered no ping.
    case silent
    /// The server never answered our request for stream management.
    case unmanaged
    /// The server's count of our stanzas can't be.
    case miscounted
}

// The end.
extension Session {
    /// What to do about the stream's end.
    package enum EndStep: Sendable, Equatable {
        /// Nothing.
        case none
        /// Set the timer, if any. The next step comes when the messages in flight have settled.
        case settle(SessionTimer?)
        /// Send these bytes, our closing tag the last, and set the timer for the peer's.
        case close([UInt8], SessionTimer)
        /// Send these bytes, if any, and close the transport.
        case end([UInt8], SessionOutcome)
    }

    /// The worker wants to end this session in order: after what is in flight.
    package mutating func close() -> EndStep {
        guard case .open = state else { return .none }
        return leave(.ours)
    }

    /// The worker wants to end this session without waiting for what is in flight; the peer sends that again.
    package mutating func closeNow() -> EndStep {
        switch state {
        case .open: finish(.ours)
        case .finishing(let cause): finish(cause)
        case .closing, .ended: .none
        }
    }

    /// The peer's `</stream:stream>` came.
    ///
    /// Acks for what is in flight are still sent for a while.
    package mutating func peerClosed() -> EndStep {
        switch state {
        case .open, .finishing(.ours): return leave(.peers)
        case .closing:
            state = .ended
            return .end([], .closedByUs)
        case .finishing(.peers), .finishing(.refusal), .ended: return .none
        }
    }

    /// What to do when the peer has broken the stream's rules.
    package struct ViolationAction: Sendable, Equatable {
        /// Whether to count a stanza as `other`.
        package var isCounted = false
        /// What to do about the stream.
        package var step: EndStep
    }

    /// The peer sent what cannot be read: the stream has to end.
    ///
    /// A server that counts stanzas keeps what isn't answered for and sends it again at the next login, which would then end
    /// in the same way, over and over. So a stanza is answered for, after what came before it.
    ///
    /// - Parameters:
    ///   - error: What was wrong.
    ///   - inStanza: Whether it was in a stanza, and not between two.
    /// - Returns: What to do.
    package mutating func violated(_ error: XMLStreamError, inStanza: Bool) -> ViolationAction {
        switch state {
        case .open where inStanza && management.isActive:
            management.noted()
            return ViolationAction(isCounted: true, step: leave(.refusal(error)))
        case .open, .finishing(.ours), .finishing(.peers), .closing:
            return ViolationAction(step: .end(farewell(error), .violation(error, isAnswered: false)))
        case .finishing(.refusal), .ended:
            return ViolationAction(step: .none)
        }
    }

    /// The transport is gone, or given up.
    package mutating func transportClosed() {
        // What ended in order, or with an error, is over for the server too.
        if case .open = state { isSuspended = management.grant != nil }
        state = .ended
    }

    /// What to do when messages have committed.
    package struct Settlement: Sendable, Equatable {
        /// Send these bytes.
        package var bytes: [UInt8] = []
        /// Set this timer, if there is one.
        package var timer: SessionTimer?
        /// What to do about the stream's end.
        package var step = EndStep.none
    }

    /// Messages of this session have committed, and their acks are written.
    ///
    /// - Parameters:
    ///   - count: How many; each is reported once.
    ///   - size: The sum of their bytes.
    ///   - now: Nanoseconds of the monotonic clock.
    ///   - messages: The messages; asked for only where the connection counts stanzas.
    /// - Returns: What to do.
    package mutating func committed(
        _ count: Int,
        size: Int,
        now: UInt64,
        messages: () -> [IncomingMessage]
    ) -> Settlement {
        let action = window.settled(messages: count, bytes: size)
        if management.isActive { management.settled(messages()) }
        var settlement = Settlement()
        switch state {
        case .open:
            settlement.bytes = management.progress() ?? []
            guard action == .resume else { break }
            switch readingPaused(false, now: now) {
            case .none: break
            case .wait(let timer): settlement.timer = timer
            case .send(let bytes): settlement.bytes += bytes
            }
        // The last word says how far we answer.
        case .finishing(let cause) where window.isEmpty: settlement.step = finish(cause)
        case .finishing, .closing, .ended: break
        }
        return settlement
    }

    /// What the reconnect policy needs to know.
    ///
    /// - Parameters:
    ///   - outcome: How the session ended; nil where the transport was lost.
    ///   - now: Nanoseconds of the monotonic clock.
    /// - Returns: The ending.
    package func ending(after outcome: SessionOutcome?, now: UInt64) -> ReconnectPolicy.Ending {
        let time = boundTime(now: now)
        switch outcome {
        // Whoever breaks the rules does it again at once: always a failure, however long the session was.
        case .violation: return .violated(afterStanzas: hasTakenStanza)
        case .unmanaged, .miscounted: return .session(bound: time, error: .policyViolation)
        case .streamError(let error): return .session(bound: time, error: error.condition)
        case .closedByUs, .closedByPeer, .silent, nil: return .session(bound: time, error: nil)
        }
    }

    // MARK: Steps

    /// Stops taking stanzas.
    private mutating func leave(_ cause: Cause) -> EndStep {
        state = .finishing(cause)
        // The keepalive's timer is a late one from now on.
        timerID += 1
        if window.isEmpty { return finish(cause) }
        // Nothing but the database bounds our own end; a peer that has closed waits for our closing tag.
        guard case .peers = cause else { return .settle(nil) }
        return .settle(timer(after: configuration.closeTimeout))
    }

    /// Says goodbye.
    private mutating func finish(_ cause: Cause) -> EndStep {
        switch cause {
        case .ours:
            let bytes = goodbye()
            state = .closing
            return .close(bytes, timer(after: configuration.closeTimeout))
        case .peers:
            let bytes = goodbye()
            state = .ended
            return .end(bytes, .closedByPeer)
        case .refusal(let error):
            return .end(farewell(error), .violation(error, isAnswered: true))
        }
    }

    /// How far we answer for the peer's stanzas, and the end of our stream.
    mutating func goodbye() -> [UInt8] { management.last() + Array("</stream:stream>".utf8) }

    /// The same with a stream error for a reason; empty where our stream is closed already.
    mutating func farewell(_ condition: StreamErrorCondition) -> [UInt8] {
        defer { state = .ended }
        return canSend ? management.last() + StreamError.farewell(condition) : []
    }

    private mutating func farewell(_ error: XMLStreamError) -> [UInt8] {
        farewell(StreamErrorCondition(rawValue: "\(error.condition)") ?? .notWellFormed)
    }
}
