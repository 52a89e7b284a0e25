package import NIOCore

extension TLSHandler {
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
    func encrypt(_ context: ChannelHandlerContext, flush: Bool = true) {
        while true {
            var done: [EventLoopPromise<Void>] = []
            let outcome = self.writes.encrypt(with: self.connection, limit: Self.outputPiece, done: &done)
            let promise = done.isEmpty ? nil : self.joined(done, context)
            if let output = self.connection.takeOutput() {
                context.write(self.wrapOutboundOut(output), promise: promise)
            } else {
                // Only empty writes were taken.
                promise?.succeed()
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
    func flushOutput(_ context: ChannelHandlerContext) {
        guard let output = self.connection.takeOutput() else { return }
        context.writeAndFlush(self.wrapOutboundOut(output), promise: nil)
    }

    func failWrites(_ error: any Error) {
        for promise in self.writes.removeAll() { promise.fail(error) }
    }

    /// One promise that completes the others.
    func joined(_ promises: [EventLoopPromise<Void>], _ context: ChannelHandlerContext) -> EventLoopPromise<Void> {
        if promises.count == 1 { return promises[0] }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { result in
            for waiting in promises { waiting.completeWith(result) }
        }
        return promise
    }
}
