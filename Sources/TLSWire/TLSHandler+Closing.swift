package import NIOCore

extension TLSHandler {
    package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .all else {
            promise?.fail(ChannelError.operationUnsupported)
            return
        }
        switch self.machine.closeRequested() {
        case .sendCloseNotify:
            if let promise {
                self.closePromises.append(promise)
            }
            self.failWrites(ChannelError.ioOnClosedChannel)
            self.startTimer(.close, self.connection.context.closeTimeout, context)
            self.connection.sendCloseNotify()
            self.flushOutput(context)
            // The application reads no more; the peer's close_notify is ours to read.
            context.read()
        case .join:
            if let promise {
                self.closePromises.append(promise)
            }
        case .closeTransport:
            self.stopTimer()
            self.failWrites(ChannelError.ioOnClosedChannel)
            context.close(mode: .all, promise: promise)
        }
    }

    func peerClosed(_ context: ChannelHandlerContext) {
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
        case .ignore:
            break
        }
    }

    /// Closes the network connection and keeps the promises of `close`.
    func closeTransport(_ context: ChannelHandlerContext) {
        self.stopTimer()
        context.close(mode: .all, promise: self.takeClosePromise(context))
    }

    func takeClosePromise(_ context: ChannelHandlerContext) -> EventLoopPromise<Void>? {
        guard !self.closePromises.isEmpty else { return nil }
        let promises = self.closePromises
        self.closePromises = []
        return self.joined(promises, context)
    }
}
