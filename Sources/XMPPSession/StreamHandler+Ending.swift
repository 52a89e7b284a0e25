package import NIOCore
import TLSWire
import Telemetry
import XMLWire
import XMPP

// The end of a connection.
extension StreamHandler {
    /// Closes this channel's stream properly, from any thread.
    package static func shutDown(_ channel: any Channel) {
        channel.eventLoop.execute {
            guard let handler = try? channel.pipeline.syncOperations.handler(type: StreamHandler.self) else { return }
            handler.shutDown()
        }
    }

    /// Closes the connection properly, from our side.
    func shutDown() {
        switch phase {
        case .ended: break
        case .idle, .connecting, .negotiating:
            end(.streamClosed, "closed by us before the stream was bound")
            closeChannel()
        case .bound(let bound): perform(bound.session.close())
        }
    }

    /// Closes the connection properly, from our side, without waiting for copies in flight: the peer redelivers them.
    func closeNow() {
        guard case .bound(let bound) = phase else { return shutDown() }
        perform(bound.session.closeNow())
    }

    /// Carries out what follows a commit; the caller flushes.
    func perform(_ settlement: Session.Settlement) {
        write(settlement.bytes)
        if let timer = settlement.timer { setTimer(timer) }
        perform(settlement.step)
    }

    func perform(_ step: Session.EndStep) {
        switch step {
        case .none: return
        case .settle(let timer):
            if let timer { setTimer(timer) }
        case .close(let bytes, let timer):
            write(bytes)
            setTimer(timer)
        case .end(let bytes, let outcome):
            return end(bytes, outcome)
        }
        updateReading()
        flush()
    }

    func transportClosed() {
        if case .negotiating(let opening) = phase, let error = opening.negotiation.ended(.transportClosed) {
            end(.negotiationFailed, error.message, negotiation: error)
        }
        end(.connectionLost, "the connection was lost")
    }

    /// Handles a failure of the socket or of a handler before this one.
    func failed(_ error: any Error) {
        switch error {
        case let error as XMLStreamError:
            guard case .bound(let bound) = phase else {
                end(.policyViolation, error.message)
                break
            }
            let action = bound.session.violated(error, inStanza: stream.failedStanza?.isStanza == true)
            if action.isCounted { delegate.noticed(.counted) }
            return perform(action.step)
        case let error as TLSError: end(error)
        default:
            end(.connectionLost, "the connection failed: \(error)")
        }
        closeChannel()
    }

    private func end(_ error: TLSError) {
        guard let opening else { return end(.connectionLost, error.message) }
        // Some servers refuse a client's certificate only after the handshake; no credentials were sent by then.
        let isSigningIn = opening.negotiation.signIn != nil
        if error.isOfConnection || error.code == .alertReceived && isSigningIn {
            let ended = opening.negotiation.ended(.transportClosed)
            let message = ended.map { "\($0.message): \(error.message)" }
            end(.negotiationFailed, message ?? error.message, negotiation: ended)
        } else if isComponent, error.code == .plaintextPeer {
            end(
                .tlsFailed,
                "the server does not speak TLS on this port: if its component listener has none, set tls.mode: none, which "
                    + "takes this machine and tls.allow_clear_networks only"
            )
        } else {
            end(.tlsFailed, error.message)
        }
    }

    func fail(_ error: NegotiationError) {
        let reason: ReconnectReason =
            switch error.code {
            case .tlsNotOffered, .tlsRefused, .tlsInjection, .notEncrypted: .tlsFailed
            case .streamError: .streamError
            case .sessionGone: .streamClosed
            default: error.code.isAuthentication ? .authenticationFailed : .negotiationFailed
            }
        end(reason, error.message, negotiation: error)
        closeChannel()
    }

    func end(_ bytes: [UInt8], _ outcome: SessionOutcome) {
        write(bytes)
        switch outcome {
        case .closedByUs: end(.streamClosed, "the stream was closed", outcome)
        case .closedByPeer: end(.streamClosed, "the server closed the stream", outcome)
        case .streamError(let error): end(.streamError, "stream error \(error.summary)", outcome)
        case .violation(let error, isAnswered: false): end(.policyViolation, error.message, outcome)
        case .violation(let error, isAnswered: true):
            let message = error.message + "; counted as handled, so that the server does not send it again"
            end(.policyViolation, message, outcome)
        case .silent where bound?.session.isHeard == false:
            end(.pingTimeout, "the server resumed the session and answers nothing: a new one is bound", outcome)
        case .silent: end(.pingTimeout, "the peer answered no ping: the connection is dead", outcome)
        case .miscounted: end(.policyViolation, "the server acknowledges stanzas that we have not sent", outcome)
        case .unmanaged:
            let message = "the server offers stream management but does not answer the request for it"
            end(.policyViolation, message, outcome)
        }
        closeChannel()
    }

    /// A failed negotiation's meaning for the next attempt: a component, refused before it is bound, must not take its
    /// domain from another in a loop either.
    private static func ending(of error: NegotiationError?) -> ReconnectPolicy.Ending {
        if error?.code == .sessionGone { return .unresumed }
        let isConflict = error?.condition == StreamErrorCondition.conflict.rawValue
        return isConflict ? .session(bound: .zero, error: .conflict) : .failed
    }

    /// Reports the end of the connection, once.
    func end(
        _ reason: ReconnectReason,
        _ message: String,
        _ outcome: SessionOutcome? = nil,
        negotiation error: NegotiationError? = nil
    ) {
        if case .ended = phase { return }
        let bound = bound
        phase = .ended(bound)
        cancelTimers()
        handOver()
        let ending = bound?.session.ending(after: outcome, now: clock.monotonic())
        var otherHost = error?.otherHost
        if case .streamError(let error)? = outcome { otherHost = error.otherHost }
        bound?.session.transportClosed()
        delegate.ended(
            SessionEnd(
                reason: reason,
                message: message,
                ending: ending ?? StreamHandler.ending(of: error),
                negotiation: error,
                server: server,
                management: bound?.management,
                otherHost: otherHost
            )
        )
    }
}
