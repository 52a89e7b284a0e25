package import NIOCore

extension TLSHandler {
    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let ciphertext = self.unwrapInboundIn(data)
        let action = self.machine.received()
        guard action != .ignore, ciphertext.readableBytes > 0 else { return }
        if !self.peerHasSpoken {
            self.peerHasSpoken = true
            guard TLSProbe.looksLikeTLSRecord(ciphertext.readableBytesView) else {
                self.fail(TLSProbe.plaintextPeer(first: ciphertext.readableBytesView), context)
                return
            }
        }
        let received = self.connection.receive(
            ciphertext,
            handshaking: action == .handshake,
            allocator: context.channel.allocator
        )
        if received.completedHandshake {
            self.announce(context)
        }
        if let plaintext = received.plaintext {
            self.deliver(plaintext, hold: received.completedHandshake, context)
        }
        switch received.end {
        case .more:
            // Answers of the protocol itself (handshake, key update), and writes that had to wait for them.
            self.flushOutput(context)
            if self.writes.wantsFlush {
                self.encrypt(context)
            }
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
        // Ciphertext that gave no data must not count as the data the application asked for.
        if self.machine.readsOnItsOwn || (self.readWanted && self.machine.state == .established) {
            context.read()
        }
    }

    package func read(context: ChannelHandlerContext) {
        self.readWanted = true
        if self.heldPlaintext != nil {
            self.deliverHeld(context)
            context.fireChannelReadComplete()
            // The channel counts this read as done only by what the network brings: with automatic reading it would
            // never ask again.
            if (try? context.channel.syncOptions?.getOption(.autoRead)) == true {
                context.read()
            }
        } else {
            context.read()
        }
    }

    /// Tells the application that the peer is verified, and lets its writes go.
    private func announce(_ context: ChannelHandlerContext) {
        guard self.machine.handshakeCompleted() == .announce else { return }
        self.stopTimer()
        self.flushOutput(context)
        context.fireUserInboundEventTriggered(self.connection.summary)
        if self.writes.wantsFlush {
            self.encrypt(context)
        }
    }

    private func deliver(_ plaintext: ByteBuffer, hold: Bool, _ context: ChannelHandlerContext) {
        // The application may have closed a moment ago: what comes now is not for it.
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

    func deliverHeld(_ context: ChannelHandlerContext) {
        guard let plaintext = self.heldPlaintext else { return }
        self.heldPlaintext = nil
        guard self.machine.received() == .deliver else { return }
        self.readWanted = false
        context.fireChannelRead(self.wrapInboundOut(plaintext))
    }
}
