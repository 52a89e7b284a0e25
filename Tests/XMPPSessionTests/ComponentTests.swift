import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import XMPPSession

@MainActor @Suite("An external component's stream")
struct ComponentTests {
    private static let header =
        "<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' "
        + "xmlns='jabber:component:accept' from='upstream.example.com' id='3BF96D32'>"
    private static let accepted = "<handshake/>"

    private static func settings(_ networks: [String]? = nil) throws -> SenderSettings {
        var settings = try Bench.settings(dialect: .component)
        settings.stream.domain = "upstream.example.com"
        settings.stream.trustedFrom = ["example.com", "*@example.com"]
        settings.secret = { Array("test".utf8) }
        if let networks { settings.security = .clear(ClearNetworks(networks.compactMap { Network($0) })) }
        return settings
    }

    private static func message(_ id: String, to: String = "orders@upstream.example.com") -> String {
        "<message from='alice@example.com/phone' to='\(to)'><gcm xmlns='google:mobile:data'>"
            + #"{"message_id":"\#(id)","from":"t","category":"c"}"# + "</gcm></message>"
    }

    /// Connects to this address, over TLS or in the clear, as the settings say.
    private static func connect(_ bench: Bench, to address: String = "127.0.0.1") throws {
        try #require(bench.handler.begin(on: bench.channel.embeddedEventLoop))
        bench.channel.connect(to: try SocketAddress(ipAddress: address, port: 5347), promise: nil)
    }

    private static func bound(_ settings: SenderSettings) throws -> Bench {
        let bench = try Bench(settings)
        try connect(bench)
        try bench.read(header)
        try bench.read(accepted)
        _ = try bench.written()
        #expect(bench.gauges == [0, 1, 0])
        return bench
    }

    @Test("Over TLS nothing is sent before the handshake of TLS; then header, digest, messages, acks, in order the end")
    func overTLS() throws {
        let bench = try Bench(try Self.settings())
        defer { bench.finish() }
        try Self.connect(bench)
        #expect(try bench.written() == "")
        try bench.establishTLS()
        #expect(try bench.written().contains("to=\"upstream.example.com\" xmlns=\"jabber:component:accept\""))
        try bench.read(Self.header)
        #expect(try bench.written() == "<handshake>aaee83c26aeeafcbabeabfcbcd50df997e0a2a1e</handshake>")
        #expect(bench.gauges == [1, 0, 0])
        // Messages may come with the acceptance, in the same read.
        try bench.read(Self.accepted, Self.message("1"), Self.message("2", to: "upstream.example.com"))
        #expect(bench.gauges == [0, 1, 0])
        let messages = bench.submitted()
        #expect(messages.map(Bench.id) == ["1", "2"])
        bench.handler.settled(messages)
        let acks = try bench.written()
        #expect(acks.contains("to=\"alice@example.com/phone\" from=\"orders@upstream.example.com\""))
        #expect(acks.contains("to=\"alice@example.com/phone\" from=\"upstream.example.com\""))
        #expect(bench.acksSent == 2)
        bench.handler.shutDown()
        #expect(try bench.written() == Server.closingTag)
        try bench.read(Server.closingTag)
        #expect(!bench.channel.isActive && bench.end?.reason == .streamClosed)
    }

    @Test("Byte by byte the same")
    func byteByByte() throws {
        let bench = try Bench(try Self.settings([]))
        defer { bench.finish() }
        try Self.connect(bench)
        for byte in (Self.header + Self.accepted + Self.message("1")).utf8 {
            try bench.channel.writeInbound(ByteBuffer(bytes: [byte]))
        }
        #expect(try bench.written().contains("<handshake>aaee83c26aeeafcbabeabfcbcd50df997e0a2a1e</handshake>"))
        #expect(bench.submitted().map(Bench.id) == ["1"])
    }

    @Test(
        "In the clear it speaks to this machine and to the networks that are listed, by the address it is connected to",
        arguments: [
            ("127.0.0.1", [], true), ("::1", [], true), ("127.8.8.8", [], true), ("10.0.0.1", [], false),
            ("10.0.0.1", ["10.0.0.0/8"], true), ("11.0.0.1", ["10.0.0.0/8"], false), ("203.0.113.5", [], false),
            ("::ffff:10.0.0.1", ["10.0.0.0/8"], true), ("64:ff9b::10.0.0.1", ["10.0.0.0/8"], false),
            ("2002:a00:1::", ["10.0.0.0/8"], false), ("fd00::1", ["fd00::/8"], true), ("fe80::1", [], false),
        ] as [(String, [String], Bool)]
    )
    func clearText(_ address: String, _ networks: [String], _ isAllowed: Bool) throws {
        let bench = try Bench(try Self.settings(networks))
        defer { bench.finish() }
        try Self.connect(bench, to: address)
        let sent = try bench.written()
        #expect(sent.contains("<stream:stream") == isAllowed)
        guard !isAllowed else { return }
        #expect(sent == "" && !bench.channel.isActive)
        #expect(bench.end?.reason == .tlsFailed && bench.end?.message.contains("tls.allow_clear_networks") == true)
    }

    @Test("A refused secret is an authentication failure, which names the fix and nothing of the secret")
    func refused() throws {
        let bench = try Bench(try Self.settings([]))
        defer { bench.finish() }
        try Self.connect(bench)
        let error = "<stream:error><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        try bench.read(Self.header, error + Server.closingTag)
        #expect(bench.end?.reason == .authenticationFailed && bench.end?.ending == .failed)
        #expect(bench.end?.message.contains("secret_file") == true)
    }

    @Test(
        "A component that is served already is left alone for a while, however the server says so",
        arguments: [true, false]
    )
    func conflict(_ isBound: Bool) throws {
        let bench = try Bench(try Self.settings([]))
        defer { bench.finish() }
        try Self.connect(bench)
        let error = "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        try bench.read(Self.header, (isBound ? Self.accepted : "") + error + Server.closingTag)
        #expect(bench.end?.reason == .streamError)
        guard case .session(_, .conflict)? = bench.end?.ending else {
            Issue.record("\(String(describing: bench.end?.ending))")
            return
        }
        #expect((bench.end?.negotiation == nil) == isBound)
    }

    @Test("A server that never accepts is left, as is one whose port wants TLS, or has none")
    func silence() throws {
        let silent = try Bench(try Self.settings([]))
        defer { silent.finish() }
        try Self.connect(silent)
        try silent.read(Self.header)
        let settings = silent.handler.settings
        silent.channel.embeddedEventLoop.advanceTime(by: settings.connectTimeout + settings.negotiationTimeout)
        #expect(silent.end?.negotiation?.code == .timedOut && !silent.channel.isActive)

        let cut = try Bench(try Self.settings([]))
        try Self.connect(cut)
        cut.channel.close(promise: nil)
        cut.finish()
        #expect(cut.end?.reason == .negotiationFailed && cut.end?.message.contains("tls.mode") == true)
    }

    @Test("An idle stream gets spaces, for as long as TCP takes them, and answers what it is asked")
    func keepalive() throws {
        var settings = try Self.settings([])
        // The least there is; the session looks at the real clock.
        settings.stream.keepaliveInterval = .milliseconds(1)
        settings.stream.keepaliveTimeout = .milliseconds(1)
        let bench = try Self.bound(settings)
        defer { bench.finish() }
        var sent = ""
        let deadline = ContinuousClock.now + .seconds(20)
        while sent.utf8.count < 20 {
            guard ContinuousClock.now < deadline else { throw Deadline() }
            bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
            sent += try bench.written()
        }
        #expect(sent.allSatisfy { $0 == " " } && bench.end == nil)
        try bench.read(
            "<iq type='get' id='p' from='example.com' to='orders@upstream.example.com'><ping xmlns='urn:xmpp:ping'/></iq>"
        )
        #expect(
            try bench.written().filter { $0 != " " }
                == #"<iqtype="result"id="p"to="example.com"from="orders@upstream.example.com"/>"#
        )
    }

    @Test("Reading pauses at the window and resumes at half of it, as with every server")
    func window() throws {
        var settings = try Self.settings([])
        settings.stream.window = 8
        let bench = try Bench(settings)
        defer { bench.finish() }
        try Self.connect(bench)
        try bench.read(Self.header)
        try bench.read(Self.accepted)
        try bench.read((1...17).map { Self.message("\($0)") }.joined())
        let messages = bench.submitted()
        #expect(messages.count == 17 && !bench.isReading)
        bench.handler.settled(Array(messages.prefix(9)))
        #expect(bench.isReading)
        bench.handler.settled(Array(messages.dropFirst(9)))
        #expect(bench.acksSent == 17)
    }
}
