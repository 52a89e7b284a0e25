import Glibc
import NIOCore
import NIOEmbedded
import NIOHTTP1
import TLSWire
import Testing

@testable import HTTPWire

@Suite("one request and its answer on a connection") struct HTTPExchangeTests {
    /// A connection whose other end is the test.
    private final class Wire {
        let channel = EmbeddedChannel()
        private let handler: HTTPExchangeHandler

        init(isSecure: Bool = false) throws {
            handler = HTTPExchangeHandler(authority: "example.com:8080", isSecure: isSecure) {}
            try channel.pipeline.syncOperations.addHTTPClientHandlers(leftOverBytesStrategy: .dropBytes)
            try channel.pipeline.syncOperations.addHandler(handler)
            channel.connect(to: try SocketAddress(ipAddress: "192.0.2.1", port: 80), promise: nil)
        }

        func start(_ request: HTTPRequest = HTTPRequest(.POST, "/p?q=1", body: Array("hello".utf8))) -> Pending {
            let loop = channel.embeddedEventLoop
            let promise = loop.makePromise(of: HTTPExchangeHandler.Outcome.self)
            let pending = Pending(promise.futureResult)
            handler.start(request, until: .uptimeNanoseconds(0) + .seconds(10), on: loop, promise)
            return pending
        }

        func cancel() { handler.fail(.cancelled) }

        var sent: String {
            var text = ""
            while let part = try? channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: part) }
            return text
        }

        func receive(_ text: String, piece: Int = .max) throws {
            var rest = ArraySlice(text.utf8)
            while !rest.isEmpty {
                let part = rest.prefix(piece)
                rest = rest.dropFirst(part.count)
                // What comes after the end is nobody's.
                guard channel.isActive else { return }
                try channel.writeInbound(ByteBuffer(bytes: part))
            }
        }
    }

    private final class Pending {
        private(set) var outcome: HTTPExchangeHandler.Outcome?
        private(set) var failure: HTTPFailure?

        init(_ future: EventLoopFuture<HTTPExchangeHandler.Outcome>) {
            let own = NIOLoopBound(self, eventLoop: future.eventLoop)
            future.whenSuccess { own.value.outcome = $0 }
            future.whenFailure { own.value.failure = $0 as? HTTPFailure }
        }

        var status: Int? { outcome?.answer.status }
        var body: String? { outcome.map { String(decoding: $0.answer.body, as: UTF8.self) } }
    }

    @Test(
        "the request goes out whole; answers are read however they are torn, and the connection is used again",
        arguments: [1, 2, 7, .max]
    )
    func whole(piece: Int) throws {
        let wire = try Wire()
        for status in [200, 503] {
            let pending = wire.start()
            let sent = wire.sent
            #expect(sent.hasPrefix("POST /p?q=1 HTTP/1.1\r\n") && sent.hasSuffix("\r\n\r\nhello"))
            #expect(sent.contains("host: example.com:8080\r\n") && sent.contains("content-length: 5\r\n"))
            #expect(pending.outcome == nil)
            let hint = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
            try wire.receive(
                hint + "HTTP/1.1 \(status) X\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nhi",
                piece: piece
            )
            #expect(pending.status == status && pending.body == "hi" && pending.outcome?.isReusable == true)
            #expect(pending.outcome?.answer.headers.first(name: "retry-after") == "7")
        }
        let chunked = wire.start(HTTPRequest(.GET, "/"))
        #expect(!wire.sent.contains("content-length"))
        try wire.receive("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", piece: piece)
        #expect(chunked.body == "hi" && chunked.outcome?.isReusable == true && wire.channel.isActive)
    }

    @Test(
        "a connection that its peer ends, or whose body is too long to read on, serves no other request",
        arguments: [
            "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.0 200 X\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\nhi" + String(repeating: "x", count: 70_000),
        ]
    )
    func notReusable(text: String) throws {
        let wire = try Wire()
        let pending = wire.start()
        try wire.receive(text, piece: 1_000)
        #expect(pending.status == 200 && pending.body?.hasPrefix("hi") == true && pending.outcome?.isReusable == false)
        #expect(!wire.channel.isActive)
        guard case .closed = wire.start().failure else { throw Unexpected() }
    }

    private struct Unexpected: Error {}

    @Test("only the start of a body is kept")
    func keptLimit() throws {
        let wire = try Wire()
        var request = HTTPRequest(.GET, "/")
        request.keptLimit = 3
        let pending = wire.start(request)
        try wire.receive("HTTP/1.1 200 X\r\nContent-Length: 6\r\n\r\nabcdef", piece: 2)
        #expect(pending.body == "abc" && pending.outcome?.isReusable == true)
    }

    @Test("as much of a body is read as is to be kept")
    func keptWhole() throws {
        let wire = try Wire()
        var request = HTTPRequest(.GET, "/")
        request.keptLimit = 100_000
        let pending = wire.start(request)
        let body = String(repeating: "x", count: 100_000)
        try wire.receive("HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n" + body, piece: 10_000)
        #expect(pending.body == body && pending.outcome?.answer.isWhole == true && pending.outcome?.isReusable == true)
    }

    @Test("an end before the answer's head is a failure; behind it the status counts")
    func ends() throws {
        let early = try Wire()
        let none = early.start()
        try early.receive("HTTP/1.1 200 X\r\nConte")
        early.channel.pipeline.fireChannelInactive()
        guard case .closed = none.failure else { throw Unexpected() }
        let late = try Wire()
        let some = late.start()
        try late.receive("HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\nbe")
        late.channel.pipeline.fireChannelInactive()
        #expect(some.status == 500 && some.body == "be" && some.outcome?.isReusable == false)
        #expect(some.outcome?.answer.isWhole == false)
    }

    @Test("at the deadline the status counts if it has come; else there was no answer in time")
    func deadline() throws {
        for head in ["", "HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nb"] {
            let wire = try Wire()
            let pending = wire.start()
            try wire.receive(head)
            wire.channel.embeddedEventLoop.advanceTime(by: .seconds(11))
            if head.isEmpty {
                guard case .timeout = pending.failure else { throw Unexpected() }
            } else {
                #expect(pending.body == "b" && pending.outcome?.isReusable == false)
            }
            #expect(!wire.channel.isActive)
        }
    }

    @Test("a cancelled request ends its connection, whether or not an answer has begun")
    func cancelled() throws {
        for head in ["", "HTTP/1.1 200 X\r\n\r\n"] {
            let wire = try Wire()
            let pending = wire.start()
            try wire.receive(head)
            wire.cancel()
            guard case .cancelled = pending.failure else { throw Unexpected() }
            #expect(!wire.channel.isActive)
        }
    }

    @Test("what is not HTTP, and an answer to nothing, end the connection")
    func rubbish() throws {
        let wire = try Wire()
        let pending = wire.start()
        do { try wire.receive("SSH-2.0-OpenSSH_9\r\n") } catch {}
        guard case .malformed = pending.failure else { throw Unexpected() }
        #expect(!wire.channel.isActive)
        let idle = try Wire()
        try idle.receive("HTTP/1.1 408 X\r\nContent-Length: 0\r\n\r\n")
        #expect(!idle.channel.isActive)
    }

    @Test("over TLS nothing is sent before the peer is verified, and its failure is told")
    func secure() throws {
        let wire = try Wire(isSecure: true)
        let pending = wire.start()
        #expect(wire.sent.isEmpty)
        wire.channel.pipeline.fireUserInboundEventTriggered(TLSEvent.established(version: "TLSv1.3", cipher: "x"))
        #expect(wire.sent.hasPrefix("POST"))
        wire.channel.pipeline.fireErrorCaught(IOError(errnoCode: ECONNRESET, reason: "read"))
        guard case .closed = pending.failure else { throw Unexpected() }
    }
}
