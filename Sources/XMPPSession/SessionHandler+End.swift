import Logging
import NIOCore
import TLSWire
import Telemetry
import XMLWire
import XMPP

// How a connection ends.
extension SessionHandler {
    /// Ends the connection in order, from our side.
    func shutDown() {
        switch phase {
        case .ended: break
        case .negotiating:
            end(.streamClosed, "closed by the worker before the stream was bound")
            closeChannel()
        case .bound:
            guard session?.close() == .stopReading else { return }
            finishReading()
        }
    }

    /// The peer's `</stream:stream>` came.
    func peerClosed() {
        switch session?.peerClosed() {
        case .finish(let timer)?:
            setTimer(timer)
            finishReading()
        case .close?:
            end(.streamClosed, "the stream was closed")
            closeChannel()
        case .none?, nil: break
        }
    }

    private func finishReading() {
        submitPending()
        isClosing = true
        updateReading()
        if window.isEmpty { everythingSettled() }
        flush()
    }

    /// Nothing is under way any more, and the session may say goodbye.
    func everythingSettled() {
        if let refusal {
            self.refusal = nil
            return violated(refusal, "; it is answered for, so that the server does not send it again")
        }
        switch session?.settled() {
        case .send(let bytes, let timer)?:
            write(bytes)
            setTimer(timer)
            // The peer's closing tag is still to come.
            isClosing = false
            updateReading()
        case .close(let bytes)?:
            write(bytes)
            end(.streamClosed, "the server closed the stream")
            closeChannel()
        case .none?, nil: break
        }
        flush()
    }

    /// The channel is closed.
    func transportClosed() {
        if case .negotiating = phase, let error = opening?.transportClosed() {
            end(.negotiationFailed, error.message, negotiation: error)
        }
        session?.transportClosed()
        end(.connectionLost, "the connection was lost")
    }

    /// A handler before this one, or the socket, has failed.
    func failed(_ error: any Error) {
        switch error {
        case let error as XMLStreamError:
            guard stream.failedStanza?.isStanza == true, session?.refusedStanza() == true else {
                return violated(error)
            }
            environment.metrics.stanzas[.other].increment()
            refusal = error
            return finishReading()
        case let error as TLSError:
            if case .bound = phase {
                end(.connectionLost, error.message)
            } else {
                end(.tlsFailed, error.message)
            }
        default:
            end(.connectionLost, "the connection failed: \(error)")
        }
        closeChannel()
    }

    /// The peer has broken the rules.
    private func violated(_ error: XMLStreamError, _ remark: String = "") {
        let condition = StreamErrorCondition(rawValue: "\(error.condition)") ?? .notWellFormed
        if session != nil {
            write(session?.violation(condition) ?? [])
        }
        // Whoever breaks the rules does it again at once: always a failure, however long the session was.
        let ending = ReconnectPolicy.Ending.violated(afterStanzas: session?.hasTakenStanza ?? false)
        end(.policyViolation, error.message + remark, as: ending)
        closeChannel()
    }

    /// Tells how the connection ended; once.
    func end(
        _ reason: ReconnectReason,
        _ message: String,
        error: StreamErrorCondition? = nil,
        as known: ReconnectPolicy.Ending? = nil,
        negotiation: NegotiationError? = nil
    ) {
        let ending: ReconnectPolicy.Ending
        switch phase {
        case .ended: return
        case .negotiating: ending = .failed
        case .bound(let since):
            ending = known ?? .session(bound: .nanoseconds((NIODeadline.now() - since).nanoseconds), error: error)
        }
        phase = .ended
        timer?.cancel()
        writeTimer?.cancel()
        drainTimer?.cancel()
        count(as: nil)
        submitPending()
        sink = nil
        let end = SessionEnd(
            reason: reason,
            message: message,
            ending: ending,
            negotiation: negotiation,
            management: management
        )
        logEnd(end)
        turnPromise.succeed(.ended(end))
        endPromise.succeed(end)
    }

    private func logEnd(_ end: SessionEnd) {
        let fields: [LogField: LogValue] = [.reason: .string(end.reason.text), .error: .string(end.message)]
        switch end.reason {
        case .streamClosed, .draining:
            logger.event(.info, .streamClosed, "the stream was closed", fields)
        case .connectFailed:
            logger.event(.warning, .connectFailed, "cannot connect", fields)
        case .tlsFailed:
            logger.event(.error, .tlsRefused, "no TLS with this peer; nothing was sent", fields)
        case .authenticationFailed:
            logger.event(.error, .saslRefused, "the server did not authenticate us", fields)
        case .negotiationFailed:
            logger.event(.warning, .negotiationFailed, "the stream could not be bound", fields)
        case .streamError, .policyViolation:
            logger.event(.warning, .streamError, "the stream ended with an error", fields)
        case .pingTimeout:
            logger.event(.warning, .pingTimeout, "the peer is dead", fields)
        case .connectionLost:
            logger.event(.warning, .streamClosed, "the connection was lost", fields)
        }
    }
}
