import NIOCore
import NIOEmbedded
import Testing

@testable import XMLWire

/// Stands behind the stream handler as the session does.
private final class Session: ChannelInboundHandler, XMLStreamReceiver {
    typealias InboundIn = Never

    private var context: ChannelHandlerContext?
    var events: [RecordedEvent] = []
    var errors: [any Error] = []
    var onEvent: (ChannelHandlerContext, RecordedEvent) -> Void = { _, _ in }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func received(_ event: XMLStreamEvent) {
        let event = RecordedEvent(event)
        events.append(event)
        if let context { onEvent(context, event) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        errors.append(error)
    }

    var names: [String?] { events.map { $0.elements.first?.name } }
}

@Suite("The channel handler")
struct XMLStreamHandlerTests {
    private let channel = EmbeddedChannel()
    private let handler = XMLStreamHandler()
    private let session = Session()

    init() throws {
        try channel.pipeline.syncOperations.addHandlers([handler, session])
        handler.receiver = session
    }

    private func write(_ text: String) throws {
        try channel.writeInbound(ByteBuffer(string: text))
    }

    @Test("buffers become events")
    func events() throws {
        for piece in Corpus.bytes.pieces(of: 100) { try channel.writeInbound(ByteBuffer(bytes: piece)) }
        #expect(session.events == record([Corpus.bytes]).events)
        #expect(session.errors.isEmpty)
    }

    @Test("only the readable bytes of a buffer are read")
    func readableBytes() throws {
        var buffer = ByteBuffer(string: "<skip>" + header + "<a/>")
        buffer.moveReaderIndex(forwardBy: 6)
        try channel.writeInbound(buffer)
        #expect(session.names == ["stream", "a"])
    }

    @Test("an error is fired once and ends the input")
    func error() throws {
        try write(header + "<a/><b></c><d/>")
        try write("<e/>")
        try write("<!DOCTYPE x>")
        #expect(session.names == ["stream", "a"])
        #expect(session.errors.count == 1)
        #expect((session.errors.first as? XMLStreamError)?.code == .notWellFormed)
    }

    @Test("keepalives are no events")
    func keepalives() throws {
        try write(header)
        try write(" ")
        try write("\n")
        #expect(session.events.count == 1)
    }

    @Test("a restart in the event goes on with the rest of the buffer")
    func restart() throws {
        session.onEvent = { [handler] _, event in
            if event.elements.first?.name == "success" { handler.reset() }
        }
        try write(header + "<success/>\n<?xml version='1.0'?>" + header + "<a/>")
        #expect(session.names == ["stream", "success", "stream", "a"])
        #expect(session.errors.isEmpty)
    }

    @Test("bytes smuggled in behind the event are seen, also those of a later buffer")
    func smuggled() throws {
        var unread: [Int] = []
        session.onEvent = { [handler, channel] _, event in
            guard event.elements.first?.name == "proceed" else { return }
            unread.append(handler.unreadBytes)
            channel.pipeline.fireChannelRead(ByteBuffer(string: "<c/>"))
            unread.append(handler.unreadBytes)
            handler.stop()
        }
        try write(header + "<proceed/><b/>")
        #expect(unread == [4, 8])
        #expect(session.names == ["stream", "proceed"])
    }

    @Test("a buffer that comes in during an event waits for its turn")
    func reentrantRead() throws {
        var nested = false
        session.onEvent = { [channel] _, event in
            guard event.elements.first?.name == "a" else { return }
            nested = true
            channel.pipeline.fireChannelRead(ByteBuffer(string: "<c/>"))
            channel.pipeline.fireChannelRead(ByteBuffer(string: "<d/></stream:stream>"))
        }
        try write(header + "<a/><b/>")
        #expect(nested)
        #expect(session.names == ["stream", "a", "b", "c", "d", nil])
    }

    @Test("the handler may be taken out during an event")
    func removal() throws {
        session.onEvent = { [handler, channel] _, event in
            guard event.elements.first?.name == "a" else { return }
            channel.pipeline.syncOperations.removeHandler(handler, promise: nil)
        }
        try write(header + "<a/><b/><c></d>")
        channel.embeddedEventLoop.run()
        #expect(session.names == ["stream", "a"])
        #expect(session.errors.isEmpty)
    }

    @Test("the channel may be closed during an event")
    func close() throws {
        session.onEvent = { [handler] context, event in
            guard event.elements.first?.name == "a" else { return }
            handler.stop()
            context.close(promise: nil)
        }
        try write(header + "<a/><b/>")
        #expect(session.names == ["stream", "a"])
    }

    @Test("a calm stream gives its memory back after each read, and goes on where it was")
    func calm() throws {
        try write(header)
        #expect(!handler.holdsParser)
        let reads = [
            ("<a><b/>", false), ("x</a>", false), ("<a>", false), ("x", true), ("y</a>", false), (" ", false),
            ("<c/>", false), ("<d/><e>&#33;", true),
        ]
        for (text, holds) in reads {
            try write(text)
            #expect(handler.holdsParser == holds, "after \(text)")
        }
        try write("</e></stream:stream>")
        #expect(session.names == ["stream", "a", "a", "c", "d", "e", nil])
        #expect(session.errors.isEmpty)
    }

    @Test("a busy stream keeps its parser from one read to the next")
    func busy() throws {
        try write(header)
        // With a reference by number, which takes the parser.
        try write(String(repeating: "<a>0123456789&#33;</a>", count: 300))
        #expect(handler.holdsParser)
        try write("<b/>")
        #expect(!handler.holdsParser)
        #expect(session.names.count == 302)
    }
}
