package import NIOCore
import TLSWire
import Telemetry
import Vocabulary
import XMLWire
import XMPP

// From TCP connect to the bound stream.
extension StreamHandler {
    package static func open(
        _ settings: SenderSettings,
        on eventLoop: any EventLoop,
        _ delegate: @escaping @Sendable () -> Delegate
    ) {
        eventLoop.execute {
            StreamHandler(settings: SharedSettings(settings), delegate: delegate()).connect(on: eventLoop)
        }
    }

    /// Connects; call it once, on this event loop.
    func connect(on eventLoop: any EventLoop) {
        guard begin(on: eventLoop) else { return }
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        StreamConnector(settings: settings, eventLoop: eventLoop) {
            if case .connecting = handler.value.phase { true } else { false }
        }
        .connect { server in
            handler.value.reached(server)
            return [handler.value.stream, handler.value]
        }
        .whenFailure { error in handler.value.connectFailed(error) }
    }

    /// Handles the TCP connection to this server; the handlers are not in its channel yet.
    func reached(_ server: ReachedServer) {
        self.server = server
        security = server.target.security
        opening?.negotiation.connected(server.target.security.mode)
        if case .connecting = phase { delegate.noticed(.reached(server)) }
    }

    /// Prepares to connect, with the secret read anew so that a rotated file takes effect; false if that is impossible.
    func begin(on eventLoop: any EventLoop) -> Bool {
        guard case .idle = phase else { return false }
        delegate.noticed(.connecting)
        let opening: Opening
        var stream = settings.stream
        if let pin = settings.pin { stream.isBindingPinned = pin.isSet }
        do {
            opening = Opening(
                Negotiation(
                    stream,
                    secret: Secret(try settings.secret()),
                    mode: settings.security.mode,
                    suspended: delegate.suspended,
                    idPrefix: idPrefix,
                    nonce: (0..<24).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                )
            )
        } catch {
            end(.authenticationFailed, "the sender's secret cannot be read: \(error)")
            return false
        }
        phase = .connecting(opening)
        timer = eventLoop.assumeIsolated().scheduleTask(in: settings.openingTimeout) {
            if let error = opening.negotiation.ended(.timedOut) { self.fail(error) }
        }
        return true
    }

    func connectFailed(_ error: any Error) {
        let message =
            if let error = error as? ServerNotFound {
                "\(settings.stream.domain): \(error.message)"
            } else {
                "cannot connect to \(settings.host) port \(settings.port): \(StreamConnector.reason(error))"
            }
        end(.connectFailed, message)
    }

    /// Handles the TCP connection, perhaps twice: a handler added meanwhile can't know whether it will be told.
    func connected() {
        guard case .connecting(let opening) = phase else { return }
        phase = .negotiating(opening)
        switch security {
        case .direct: break
        case .startTLS: transportReady(encrypted: false)
        case .clear(let networks):
            if let error = refusal(ofClearTextOutside: networks) { return fail(error) }
            transportReady(encrypted: false)
        }
    }

    /// Why nothing may be sent unencrypted to the connected address (a name's may change between look-ups); else nil.
    private func refusal(ofClearTextOutside networks: ClearNetworks) -> NegotiationError? {
        let address = context?.channel.remoteAddress?.ipAddress.flatMap { NetworkAddress($0) }
        if let address, networks.contains(address) { return nil }
        let place = address.map { "\($0)" } ?? "an unknown address"
        return NegotiationError(
            .notEncrypted,
            "\(settings.host) is \(place), which is neither this machine nor in tls.allow_clear_networks: nothing is sent there "
                + "in the clear; use tls.mode: direct, or list the network if nobody else can read or write in it"
        )
    }

    func transportReady(encrypted: Bool, bindings: [ChannelBinding] = []) {
        guard let opening, let context else { return }
        perform(opening.negotiation.transportReady(encrypted: encrypted, bindings: bindings), opening, context)
        flush()
    }

    func negotiate(_ event: XMLStreamEvent, _ opening: Opening, _ context: ChannelHandlerContext) {
        switch event {
        case .opened(let header):
            perform(opening.negotiation.opened(header), opening, context)
        // Nothing that the server has to send looks like that; the deadline bounds the wait for the rest.
        case .skipped: break
        case .closed:
            if let error = opening.negotiation.ended(.streamClosed) { fail(error) }
        case .stanza(let stanza):
            perform(opening.negotiation.stanza(stanza, trailingBytes: stream.unreadBytes), opening, context)
        }
        flush()
    }

    private func perform(_ action: Negotiation.Action, _ opening: Opening, _ context: ChannelHandlerContext) {
        switch action {
        case .send(let bytes): write(bytes)
        case .restart(let bytes):
            stream.reset()
            write(bytes)
        case .startTLS:
            stream.reset()
            startTLS(context)
        case .derive(let derivation): derive(derivation, context)
        case .bound(let stream): becomeBound(stream, opening.negotiation.signIn, context)
        case .fail(let error): fail(error)
        case .none: break
        }
    }

    private func startTLS(_ context: ChannelHandlerContext) {
        guard case .startTLS(let tls) = security else { return }
        do {
            try context.pipeline.syncOperations.addHandler(TLSHandler(context: tls), position: .first)
        } catch {
            failed(error)
        }
    }

    private func derive(_ derivation: KeyDerivation, _ context: ChannelHandlerContext) {
        settings.keys.key(for: derivation, on: context.eventLoop).assumeIsolated().whenComplete { result in
            guard case .negotiating(let opening) = self.phase, let context = self.context else { return }
            switch result {
            case .success(let key):
                self.perform(opening.negotiation.derived(key), opening, context)
                self.flush()
            case .failure(let error): self.failed(error)
            }
        }
    }

    private func becomeBound(_ stream: BoundStream, _ signIn: SignIn?, _ context: ChannelHandlerContext) {
        timer?.cancel()
        if let signIn {
            delegate.noticed(.signedIn(signIn))
            if let kind = signIn.choice.binding, settings.pin?.signedIn(kind) == true { delegate.noticed(.pinned) }
        }
        let session = Session(
            settings.stream,
            takesMessages: Delegate.takesMessages,
            idPrefix: idPrefix,
            stream: stream,
            now: clock.monotonic()
        )
        let bound = BoundSession(session, stream.management)
        phase = .bound(bound)
        setTimer(bound.session.start())
        if delegate.bound(stream, on: context.channel) {
            write(stream.greeting)
            if stream.resumed != nil { delegate.resumed(by: self) }
            delegate.greeted(by: self)
        } else {
            shutDown()
        }
    }
}
