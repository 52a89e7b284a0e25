package import NIOCore
package import Vocabulary

/// A user inbound event that ``TLSHandler`` fires.
package enum TLSEvent: Sendable, Hashable {
    /// The handshake is complete and, on a client, the peer is verified.
    ///
    /// `version` is OpenSSL's name (`TLSv1.3`), `cipher` the suite's standard name. No data of the application is sent
    /// before this event.
    case established(version: String, cipher: String)
    /// The peer sent close_notify: nothing it sent is missing (RFC 8446 §6.1); `channelInactive` follows.
    ///
    /// Without this event, an end of the connection that the application did not ask for is preceded by a ``TLSError``
    /// with the code ``TLSError/Code/truncated``.
    case closedCleanly
}

/// TLS for one channel: ciphertext on the network's side, plaintext on the application's.
///
/// Added before the channel is active, it starts the handshake at `channelActive`; added to an active channel
/// (STARTTLS), it starts at once; the handler that adds it must have refused any bytes that the peer sent before.
///
/// The application sees, in this order: ``TLSEvent/established(version:cipher:)``, data as `ByteBuffer`, one
/// `fireChannelRead` per read of the socket, ``TLSEvent/closedCleanly`` if the peer ended with close_notify, and
/// `channelInactive`. Any failure is one ``TLSError`` through `errorCaught`, after which the channel is closed; the
/// alert is sent first. Writes before the handshake's end wait, up to 64 KiB, and never reach an unverified peer.
///
/// `close` sends close_notify and waits at most the context's `closeTimeout` for the peer's; so does closing the output,
/// after which nothing is received. An input that ends without close_notify is truncated, and closes the channel.
package final class TLSHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// The most bytes written before the end of the handshake.
    private static let maximumPendingBytes = 65_536
    /// The most bytes written without a flush before they are encrypted and count for the channel's writability.
    private static let maximumUnflushedBytes = 65_536
    /// How much ciphertext is passed on at a time.
    private static let outputPiece = 262_144

    let connection: TLSConnection
    private var machine = TLSStateMachine()
    private var writes = PendingWrites()
    /// The place in the pipeline, for timers; nil outside of it.
    private var channelContext: ChannelHandlerContext?
    /// The timer of the handshake, then of the closing.
    private var timer: Scheduled<Void>?
    private var closePromises: [EventLoopPromise<Void>] = []
    /// Data that came with the end of the handshake, before the application asked for any.
    private var heldPlaintext: ByteBuffer?
    /// Whether the application has asked for data and got none since.
    private var readWanted = false
    private var peerHasSpoken = false

    /// A handler for one connection; the context decides its side.
    package init(context: TLSContext) throws(TLSError) { self.connection = try TLSConnection(context) }

    /// The connection's channel bindings for SASL, the strongest first; none before it is established.
    package var channelBindings: [ChannelBinding] {
        self.machine.state == .established ? self.connection.channelBindings : []
    }

    /// The seconds until the peer's certificate expires; nil before the handshake is complete, and on a server.
    package var peerCertificateEnd: Int? {
        self.machine.state == .established ? self.connection.peerCertificateEnd : nil
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.channelContext = context
        if context.channel.isActive { self.start(context) }
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        self.channelContext = nil
        self.stopTimer()
        _ = self.machine.transportEnded()
        self.heldPlaintext = nil
        self.failWrites(ChannelError.ioOnClosedChannel)
        self.takeClosePromise(context)?.succeed()
    }

    package func channelActive(context: ChannelHandlerContext) {
        self.start(context)
        context.fireChannelActive()
    }

    package func channelInactive(context: ChannelHandlerContext) {
        self.stopTimer()
        self.deliverHeld(context)
        let error: TLSError? =
            switch self.machine.transportEnded() {
            case .failHandshake: self.peerHasSpoken ? .unfinishedHandshake : .noHandshake
            case .failTruncated: .truncated
            case .finish: nil
            }
        self.failWrites(error ?? ChannelError.ioOnClosedChannel)
        if let error { context.fireErrorCaught(error) }
        self.takeClosePromise(context)?.succeed()
        context.fireChannelInactive()
    }

    /// The input's end, where the channel allows half-closure.
    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .inputClosed = event as? ChannelEvent else { return context.fireUserInboundEventTriggered(event) }
        switch self.machine.state {
        case .idle, .closed: context.fireUserInboundEventTriggered(event)
        case .closing: self.closeTransport(context)
        case .handshaking: self.fail(.unfinishedHandshake, context)
        case .established:
            self.deliverHeld(context)
            context.fireUserInboundEventTriggered(event)
            self.fail(.truncated, context)
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.fail(TLSError(.io, "the network connection failed", underlying: error), context)
    }

    /// Starts the handshake, if it is time for it.
    private func start(_ context: ChannelHandlerContext) {
        guard self.machine.transportActive() == .startHandshake else { return }
        self.startTimer(.handshake, self.connection.context.handshakeTimeout, context)
        switch self.connection.handshake() {
        case .incomplete, .complete:
            self.flushOutput(context)
            // The application may hold reading back; the handshake is ours to read.
            context.read()
        case .failed(let error): self.fail(error, context)
        }
    }

    private func startTimer(_ timer: TLSStateMachine.Timer, _ delay: TimeAmount, _ context: ChannelHandlerContext) {
        self.stopTimer()
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.fired(timer) }
    }

    private func stopTimer() { self.timer.take()?.cancel() }

    private func fired(_ timer: TLSStateMachine.Timer) {
        guard let context = self.channelContext else { return }
        switch self.machine.fired(timer) {
        case .failHandshake:
            let seconds = Double(self.connection.context.handshakeTimeout.nanoseconds) / 1e9
            let error = TLSError(
                .handshakeTimeout,
                self.peerHasSpoken
                    ? "the TLS handshake was not finished within \(seconds) s"
                    : "the peer did not answer the TLS handshake within \(seconds) s: check that the port speaks TLS "
                        + "from the first byte, or set tls.mode: starttls"
            )
            self.fail(error, context)
        case .finish: self.closeTransport(context)
        case .ignore: break
        }
    }

    // MARK: - Ends

    package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode != .input else {
            promise?.fail(ChannelError.operationUnsupported)
            return
        }
        let action = self.machine.closeRequested()
        if action == .closeTransport {
            self.stopTimer()
            self.failWrites(ChannelError.ioOnClosedChannel)
            context.close(mode: .all, promise: promise)
            return
        }
        if let promise { self.closePromises.append(promise) }
        guard action == .sendCloseNotify else { return }
        self.failWrites(ChannelError.ioOnClosedChannel)
        self.startTimer(.close, self.connection.context.closeTimeout, context)
        self.connection.sendCloseNotify()
        self.flushOutput(context)
        // The application reads no more; the peer's close_notify is ours to read.
        context.read()
    }

    private func peerClosed(_ context: ChannelHandlerContext) {
        switch self.machine.closeNotifyReceived() {
        case .failHandshake:
            self.fail(TLSError(.handshakeFailed, "the peer ended TLS during the handshake"), context)
        case .answer:
            self.connection.sendCloseNotify()
            self.flushOutput(context)
            self.failWrites(ChannelError.ioOnClosedChannel)
            context.fireUserInboundEventTriggered(TLSEvent.closedCleanly)
            context.close(mode: .all, promise: nil)
        case .finish:
            context.fireUserInboundEventTriggered(TLSEvent.closedCleanly)
            self.closeTransport(context)
        case .ignore: break
        }
    }

    /// Reports a failure, once, and closes.
    private func fail(_ error: TLSError, _ context: ChannelHandlerContext) {
        switch self.machine.failed() {
        case .report:
            self.stopTimer()
            // The alert, without which the peer would not learn why.
            self.flushOutput(context)
            self.heldPlaintext = nil
            self.failWrites(error)
            context.fireErrorCaught(error)
            context.close(mode: .all, promise: nil)
        case .finish: self.closeTransport(context)
        case .ignore: break
        }
    }

    private func closeTransport(_ context: ChannelHandlerContext) {
        self.stopTimer()
        context.close(mode: .all, promise: self.takeClosePromise(context))
    }

    private func takeClosePromise(_ context: ChannelHandlerContext) -> EventLoopPromise<Void>? {
        defer { self.closePromises = [] }
        return self.joined(self.closePromises, context)
    }

    // MARK: - Reading

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let ciphertext = self.unwrapInboundIn(data)
        let action = self.machine.received()
        guard action != .ignore, ciphertext.readableBytes > 0 else { return }
        if !self.peerHasSpoken {
            self.peerHasSpoken = true
            guard TLSProbe.looksLikeTLSRecord(ciphertext.readableBytesView) else {
                return self.fail(TLSProbe.plaintextPeer(first: ciphertext.readableBytesView), context)
            }
        }
        let received = self.connection.receive(
            ciphertext,
            handshaking: action == .handshake,
            allocator: context.channel.allocator
        )
        if received.completedHandshake { self.announce(context) }
        if let plaintext = received.plaintext {
            self.deliver(plaintext, hold: received.completedHandshake, context)
        }
        switch received.end {
        case .more:
            // Answers of the protocol itself (handshake, key update), and writes that had to wait for them.
            self.flushOutput(context)
            if self.writes.wantsFlush { self.encrypt(context) }
        case .closeNotify:
            self.deliverHeld(context)
            self.peerClosed(context)
        case .failed(let error):
            self.deliverHeld(context)
            self.fail(error, context)
        }
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        self.readOn(context)
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        context.fireChannelWritabilityChanged()
        if context.channel.isWritable { self.readOn(context) }
    }

    /// Reads on without a new request of the application.
    ///
    /// Ciphertext that gave no data must not count as the data the application asked for. But a peer that accepts
    /// nothing is not read from: it could ask for one key update after another, and the answers would pile up here.
    private func readOn(_ context: ChannelHandlerContext) {
        let isDue = self.readWanted && self.machine.state == .established && context.channel.isWritable
        if isDue || self.machine.readsOnItsOwn { context.read() }
    }

    package func read(context: ChannelHandlerContext) {
        self.readWanted = true
        if self.heldPlaintext != nil {
            self.deliverHeld(context)
            context.fireChannelReadComplete()
            // The channel considers this read done only after input from the network: with automatic reading it would
            // never read again.
            guard (try? context.channel.syncOptions?.getOption(.autoRead)) == true else { return }
        }
        context.read()
    }

    /// Tells the application that the peer is verified, and releases its writes.
    private func announce(_ context: ChannelHandlerContext) {
        guard self.machine.handshakeCompleted() == .announce else { return }
        self.stopTimer()
        self.flushOutput(context)
        context.fireUserInboundEventTriggered(self.connection.summary)
        if self.writes.wantsFlush { self.encrypt(context) }
    }

    private func deliver(_ plaintext: ByteBuffer, hold: Bool, _ context: ChannelHandlerContext) {
        // The application may have just closed: this data is not for it.
        guard self.machine.received() == .deliver else { return }
        if self.heldPlaintext != nil {
            self.heldPlaintext?.writeImmutableBuffer(plaintext)
        } else if hold, !self.readWanted {
            self.heldPlaintext = plaintext
        } else {
            self.readWanted = false
            context.fireChannelRead(self.wrapInboundOut(plaintext))
        }
    }

    private func deliverHeld(_ context: ChannelHandlerContext) {
        if let plaintext = self.heldPlaintext.take() { self.deliver(plaintext, hold: false, context) }
    }

    // MARK: - Writing

    package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let action = self.machine.write()
        if action == .refuse {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        self.writes.append(self.unwrapOutboundIn(data), promise)
        if action == .keep {
            guard self.writes.bytes > Self.maximumPendingBytes else { return }
            let text = "more than \(Self.maximumPendingBytes) bytes were written before the TLS handshake was done"
            self.fail(TLSError(.pendingWriteOverflow, text), context)
        } else if self.writes.bytes >= Self.maximumUnflushedBytes {
            self.encrypt(context, flush: false)
        }
    }

    package func flush(context: ChannelHandlerContext) {
        switch self.machine.write() {
        case .keep: self.writes.wantsFlush = true
        case .encrypt: self.encrypt(context)
        case .refuse: context.flush()
        }
    }

    /// Encrypts waiting writes and passes them to the network.
    private func encrypt(_ context: ChannelHandlerContext, flush: Bool = true) {
        while true {
            var done: [EventLoopPromise<Void>] = []
            let outcome = self.writes.encrypt(with: self.connection, limit: Self.outputPiece, done: &done)
            let promise = self.joined(done, context)
            // Empty writes alone give no output, and end in their turn, behind what was passed on before.
            let output = self.connection.takeOutput()
            if output != nil || promise != nil {
                context.write(self.wrapOutboundOut(output ?? ByteBuffer()), promise: promise)
            }
            switch outcome {
            case .limited: continue
            case .blocked: self.writes.wantsFlush = self.writes.wantsFlush || flush
            case .drained: self.writes.wantsFlush = false
            case .failed(let error): return self.fail(error, context)
            }
            break
        }
        if flush { context.flush() }
    }

    /// Sends OpenSSL's own messages: handshake messages, alerts, key updates.
    private func flushOutput(_ context: ChannelHandlerContext) {
        guard let output = self.connection.takeOutput() else { return }
        context.writeAndFlush(self.wrapOutboundOut(output), promise: nil)
    }

    private func failWrites(_ error: any Error) {
        for promise in self.writes.removeAll() { promise.fail(error) }
    }

    /// One promise that completes the others; nil for none.
    private func joined(_ all: [EventLoopPromise<Void>], _ context: ChannelHandlerContext) -> EventLoopPromise<Void>? {
        if all.count <= 1 { return all.first }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { result in
            for waiting in all { waiting.completeWith(result) }
        }
        return promise
    }
}
