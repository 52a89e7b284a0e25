package import NIOCore

extension TLSHandler {
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

    func deliverHeld(_ context: ChannelHandlerContext) {
        if let plaintext = self.heldPlaintext.take() { self.deliver(plaintext, hold: false, context) }
    }
}

/// Recognises TLS by a peer's first bytes.
enum TLSProbe {
    /// Whether the first bytes begin a TLS record, as far as they go (RFC 8446 §5.1).
    ///
    /// The content types are 20 to 23, none of which can begin an XML document. The second byte is the major version,
    /// which is 3 in every version of the protocol.
    static func looksLikeTLSRecord(_ first: some Sequence<UInt8>) -> Bool {
        var iterator = first.makeIterator()
        guard let type = iterator.next(), (20...23).contains(type) else { return false }
        return (iterator.next() ?? 3) == 3
    }

    /// The error for a peer whose first bytes are not a TLS record.
    static func plaintextPeer(first: some Sequence<UInt8>) -> TLSError {
        let bytes = Array(first.prefix(5))
        let text =
            if bytes.first == UInt8(ascii: "<") {
                "it sent XML: this port begins in plaintext, set tls.mode: starttls"
            } else if bytes.starts(with: "HTTP".utf8) {
                "it speaks plaintext HTTP: check host and port"
            } else if bytes.starts(with: "SSH-".utf8) {
                "it is an SSH server: check host and port"
            } else {
                "check the port, or set tls.mode: starttls if the server begins in plaintext"
            }
        return TLSError(.plaintextPeer, "the peer does not speak TLS here; " + text)
    }
}
