import Logging
import NIOCore
import TLSWire
import Telemetry
import XMLWire
import XMPP

// From TCP connect to the bound stream.
extension SessionHandler {
    /// Gets ready to connect; false where there is no point in it.
    ///
    /// The secret is read for each connection, so that a rotated file takes effect by itself.
    func begin(on eventLoop: any EventLoop) -> Bool {
        count(as: .connecting)
        do {
            let secret = try settings.secret()
            opening = StreamOpening(
                settings,
                dialect: settings.dialect,
                secret: secret,
                idPrefix: idPrefix,
                stream: stream
            )
        } catch {
            end(.authenticationFailed, "the sender's secret cannot be read: \(error)")
            return false
        }
        let deadline = settings.connectTimeout + settings.negotiationTimeout
        timer = eventLoop.assumeIsolated().scheduleTask(in: deadline) { self.negotiationTimedOut() }
        return true
    }

    /// TCP could not connect.
    func connectFailed(_ error: any Error) {
        end(.connectFailed, "cannot connect to \(settings.host) port \(settings.port): \(ConnectFailure.reason(error))")
    }

    private func negotiationTimedOut() {
        guard case .negotiating = phase else { return }
        if let error = opening?.timedOut() { fail(error) }
    }

    /// Does what the opening asks for.
    func proceed(_ step: StreamOpening.Step) {
        guard case .negotiating = phase else { return }
        switch step {
        case .none: break
        case .send(let bytes): write(bytes)
        case .derive(let derivation): derive(derivation)
        case .bound(let bound): becomeBound(bound)
        case .failed(let error): fail(error)
        case .broken(let error): failed(error)
        }
        flush()
    }

    private func derive(_ derivation: KeyDerivation) {
        guard let context else { return }
        settings.keys.key(for: derivation, on: context.eventLoop).assumeIsolated().whenComplete { result in
            guard let context = self.context, let opening = self.opening else { return }
            switch result {
            case .success(let key): self.proceed(opening.derived(key, context))
            case .failure(let error): self.failed(error)
            }
        }
    }

    private func becomeBound(_ bound: BoundStream) {
        timer?.cancel()
        opening = nil
        let codec = UpstreamCodec(
            configuration: CodecConfiguration(
                sender: UInt16(settings.index),
                senderID: settings.senderID,
                domain: settings.domain,
                dialect: settings.dialect,
                idScope: settings.idScope,
                trustedFrom: settings.trustedFrom
            )
        )
        session = Session(
            configuration: SessionConfiguration(
                domain: settings.domain,
                idPrefix: idPrefix,
                keepaliveInterval: settings.keepaliveInterval,
                keepaliveTimeout: settings.keepaliveTimeout
            ),
            codec: codec,
            stream: bound,
            now: ArrivalClock.monotonicNanoseconds()
        )
        phase = .bound(since: .now())
        management = bound.management
        count(as: .bound)
        logger.event(.info, .streamBound, "the stream is bound", [.host: .string(settings.host)])
        if let timer = session?.start() { setTimer(timer) }
        switch purpose {
        case .receive:
            if bound.management == .missing { report(.missing) }
            write(bound.greeting)
        case .probe: shutDown()
        }
    }

    /// The negotiation has come to its end without a bound stream.
    private func fail(_ error: NegotiationError) {
        let reason: ReconnectReason =
            switch error.code {
            case .tlsNotOffered, .tlsRefused, .tlsInjection, .notEncrypted: .tlsFailed
            case .noMechanism, .authenticationRefused, .authenticationUnavailable, .authenticationProtocol:
                .authenticationFailed
            case .streamError: .streamError
            case .badStream, .bindRefused, .closed, .timedOut: .negotiationFailed
            }
        end(reason, error.message, negotiation: error)
        closeChannel()
    }
}
