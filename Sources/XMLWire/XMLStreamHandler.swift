package import NIOCore

package protocol XMLStreamReceiver: AnyObject {
    func received(_ event: XMLStreamEvent)
}

/// The channel handler around an ``XMLFramer``: byte buffers in, ``XMLStreamEvent`` to its receiver.
///
/// It reads a buffer without copying it. After an error it fires that error once and drops all further input. The
/// receiver may call any method here during an event, remove this handler, or close the channel.
package final class XMLStreamHandler: ChannelInboundHandler, RemovableChannelHandler {
    package typealias InboundIn = ByteBuffer

    /// Takes the events; whoever sets it clears it when leaving.
    ///
    /// A pipeline boxes each event, casts it back and counts references: more than reading a stanza should cost.
    package var receiver: (any XMLStreamReceiver)?

    private let framer: XMLFramer
    /// A read of fewer bytes releases the stream's memory.
    private let busyBytes: UInt64
    /// ``XMLFramer/bytesReceived`` at the end of the last read.
    private var bytesBefore: UInt64 = 0
    private var isReading = false
    private var waiting: [ByteBuffer] = []

    /// A handler at the start of a stream.
    ///
    /// A read of fewer than `busyBytes` releases the parser, if it ends between stanzas; the next one makes it again in
    /// a microsecond or two. A connection below its capacity then holds a few hundred bytes here.
    package init(limits: StreamLimits = StreamLimits(), busyBytes: Int = 4096) {
        self.framer = XMLFramer(limits: limits)
        self.busyBytes = UInt64(busyBytes)
    }

    package var failedStanza: StanzaName? { framer.failedStanza }

    var holdsParser: Bool { framer.holdsParser }

    /// The bytes received after the current event.
    ///
    /// If not 0 after STARTTLS's `<proceed/>`, someone injected bytes before the handshake: end the connection.
    package var unreadBytes: Int { waiting.reduce(framer.unreadBytes) { $0 + $1.readableBytes } }

    /// Begins a new stream document directly after the current event (``XMLFramer/reset()``).
    package func reset() { framer.reset() }

    package func stop() {
        framer.stop()
        waiting.removeAll()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        waiting.append(unwrapInboundIn(data))
        guard !isReading else { return }
        isReading = true
        var next = 0
        while next < waiting.count {
            let buffer = waiting[next]
            next += 1
            if next == waiting.count {
                waiting.removeAll(keepingCapacity: true)
                next = 0
            }
            read(buffer, context: context)
        }
        isReading = false
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        let bytes = framer.bytesReceived
        if !isReading, bytes - bytesBefore < busyBytes { framer.releaseMemory() }
        bytesBefore = bytes
        context.fireChannelReadComplete()
    }

    package func handlerRemoved(context: ChannelHandlerContext) { stop() }

    private func read(_ buffer: ByteBuffer, context: ChannelHandlerContext) {
        guard framer.failure == nil, let receiver else { return }
        do throws(XMLStreamError) {
            try buffer.withUnsafeReadableBytes { bytes throws(XMLStreamError) in
                try framer.feed(bytes) { event in receiver.received(event) }
            }
        } catch {
            waiting.removeAll()
            context.fireErrorCaught(error)
        }
    }
}
