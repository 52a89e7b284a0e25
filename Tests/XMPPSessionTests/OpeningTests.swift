import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import XMPP

@testable import TLSWire
@testable import XMPPSession

@MainActor @Suite("From TCP to the bound stream")
struct OpeningTests {
    @Test("A connection is counted as connecting until it is bound, and no longer after its end")
    func gauges() throws {
        let bench = try Bench()
        try bench.connect()
        #expect(bench.gauges == [1, 0, 0])
        #expect(try bench.writes() == [])
        try bench.establishTLS()
        try bench.signIn()
        #expect(bench.gauges == [0, 1, 0])
        bench.finish()
    }

    @Test("Nothing is sent before TLS is established")
    func nothingBeforeTLS() throws {
        let bench = try Bench()
        try bench.connect()
        try bench.read(Server.header, Server.mechanisms)
        #expect(try bench.written() == "")
        bench.finish()
        #expect(bench.end?.reason == .negotiationFailed)
    }

    @Test("A server that never gets to the bound stream is left")
    func negotiationTimeout() throws {
        let bench = try Bench()
        defer { bench.finish() }
        try bench.connect()
        try bench.establishTLS()
        try bench.read(Server.header, Server.mechanisms)
        let settings = bench.handler.settings
        bench.channel.embeddedEventLoop.advanceTime(by: settings.connectTimeout + settings.negotiationTimeout)
        #expect(bench.end?.reason == .negotiationFailed)
        #expect(bench.end?.negotiation?.code == .timedOut)
        #expect(bench.end?.ending == .failed)
        #expect(!bench.channel.isActive)
    }

    @Test("A bound stream has outlived the negotiation's deadline")
    func deadlineEndsWithBinding() throws {
        var settings = try Bench.settings()
        settings.stream.keepaliveInterval = .seconds(86_400)
        let bench = try Bench.bound(settings)
        defer { bench.finish() }
        bench.channel.embeddedEventLoop.advanceTime(by: settings.connectTimeout + settings.negotiationTimeout)
        #expect(bench.end == nil)
    }

    @Test("Refused credentials end the connection with the server's condition and without the secret")
    func refusedCredentials() throws {
        let bench = try Bench()
        defer { bench.finish() }
        try bench.connect()
        try bench.establishTLS()
        try bench.read(Server.header, Server.mechanisms)
        try bench.read("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>")
        #expect(bench.end?.reason == .authenticationFailed)
        #expect(bench.end?.message.contains("hunter2") == false)
        #expect(bench.end?.message.contains("not-authorized") == true)
        #expect(!bench.channel.isActive)
    }

    @Test("A connection that breaks during the sign-in is no TLS failure: credentials were sent, and a retry may work")
    func brokenConnection() throws {
        func end(_ code: TLSError.Code, isEncrypted: Bool, isSigningIn: Bool = false) throws -> SessionEnd? {
            let bench = try Bench()
            defer { bench.finish() }
            try bench.connect()
            if isEncrypted { try bench.establishTLS() }
            if isSigningIn { try bench.read(Server.header, Server.mechanisms) }
            #expect(try bench.written().contains("<auth") == isSigningIn)
            bench.channel.pipeline.fireErrorCaught(TLSError(code, "it broke"))
            #expect(!bench.channel.isActive)
            return bench.end
        }
        for code in [TLSError.Code.truncated, .io, .protocolViolation, .alertReceived] {
            let late = try end(code, isEncrypted: true, isSigningIn: true)
            #expect(late?.reason == .negotiationFailed, "\(code)")
            #expect(late?.message == "the connection was closed during authentication: it broke")
            let early = try end(code, isEncrypted: true)
            #expect(early?.reason == (code == .alertReceived ? .tlsFailed : .negotiationFailed), "\(code)")
        }
        #expect(try end(.io, isEncrypted: false)?.reason == .negotiationFailed)
        for code in [TLSError.Code.handshakeFailed, .untrusted, .plaintextPeer] {
            #expect(try end(code, isEncrypted: false)?.reason == .tlsFailed, "\(code)")
        }
    }

    @Test("Messages that come with the answer to the binding are not lost")
    func messagesWithTheBindResult() throws {
        let bench = try Bench()
        defer { bench.finish() }
        try bench.requestBinding()
        try bench.read(Server.bindResult, Server.message("1"))
        #expect(bench.submitted().map(Bench.id) == ["1"])
    }

    @Test("Without an offer of STARTTLS nothing but the stream header is sent")
    func startTLSNotOffered() throws {
        let bench = try Bench(try Bench.settings(startTLS: true))
        defer { bench.finish() }
        try bench.connect()
        #expect(try bench.written().contains("<stream:stream"))
        try bench.read(Server.header, Server.mechanisms)
        #expect(try bench.writes() == [])
        #expect(bench.end?.reason == .tlsFailed)
        #expect(bench.end?.negotiation?.code == .tlsNotOffered)
        #expect(!bench.channel.isActive)
    }

    @Test("Bytes behind the consent to TLS are an attack")
    func startTLSInjection() throws {
        let bench = try Bench(try Bench.settings(startTLS: true))
        defer { bench.finish() }
        try bench.connect()
        try bench.read(
            Server.header,
            "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>"
        )
        #expect(try bench.written().contains("<starttls"))
        try bench.read("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>", Server.header)
        #expect(try bench.writes() == [])
        #expect(bench.end?.negotiation?.code == .tlsInjection)
        #expect(!bench.channel.isActive)
    }

    @Test("After the server's consent the next bytes are TLS's")
    func startTLSBegins() throws {
        let bench = try Bench(try Bench.settings(startTLS: true))
        defer { bench.finish() }
        try bench.connect()
        try bench.read(
            Server.header,
            "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>"
        )
        _ = try bench.writes()
        try bench.read("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
        let hello = try #require(try bench.channel.readOutbound(as: ByteBuffer.self))
        // A handshake record (RFC 8446 section 5.1).
        #expect(hello.getInteger(at: 0, as: UInt8.self) == 22)
    }

    @Test("A probe says goodbye as soon as the stream is bound")
    func probe() throws {
        let bench = try ProbeBench(Bench.settings())
        try bench.requestBinding()
        try bench.read(Server.bindResult)
        #expect(try bench.written() == Server.closingTag)
        try bench.read(Server.closingTag)
        #expect(bench.end?.reason == .streamClosed)
    }

    @Test("A shutdown before the stream is bound closes at once")
    func shutDownEarly() throws {
        let bench = try Bench()
        defer { bench.finish() }
        try bench.connect()
        bench.handler.shutDown()
        #expect(!bench.channel.isActive)
        #expect(bench.end?.reason == .streamClosed)
    }
}
