import Foundation
import Testing
import Vocabulary

@testable import XMLWire
@testable import XMPP

let streamHeader =
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0' id='1'>"

/// A stanza that outlives the call it was lent for, read by the real framer.
func stanza(_ xml: String, _ limits: StreamLimits = StreamLimits()) throws -> Stanza {
    try #require(try feed(streamHeader + xml, limits).stanza)
}

/// A stream's start tag.
func header(_ xml: String) throws -> Stanza {
    try #require(try feed(xml).opened)
}

private struct Fed {
    var opened: Stanza?
    var stanza: Stanza?
}

private func feed(_ xml: String, _ limits: StreamLimits = StreamLimits()) throws -> Fed {
    let framer = XMLFramer(limits: limits)
    var fed = Fed()
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: xml.utf8.count, alignment: 1)
    defer { bytes.deallocate() }
    bytes.copyBytes(from: xml.utf8)
    try framer.feed(UnsafeRawBufferPointer(bytes)) { event in
        switch event {
        case .opened(let lent): fed.opened = copy(lent)
        case .stanza(let lent): fed.stanza = copy(lent)
        case .skipped, .closed: break
        }
    }
    return fed
}

private func copy(_ lent: Stanza) -> Stanza {
    let copy = Stanza()
    copy.bytes = lent.bytes
    copy.elements = lent.elements
    copy.attributes = lent.attributes
    copy.raw = lent.raw
    return copy
}

extension AckEncoder {
    init(dialect: Dialect, domain: String = "example.org") {
        self.init(StreamSettings(senderID: "1", domain: domain, dialect: dialect))
    }

    /// Appends a message's ack, if it is to be acked.
    func encode(_ message: IncomingMessage, into output: inout [UInt8]) {
        output += [UInt8](unsafeUninitializedCapacity: sizeLimit(of: message)) { storage, count in
            count = encode([message].span, 0, into: UnsafeMutableRawBufferPointer(storage))
        }
    }

    func usualSize(of message: IncomingMessage) -> Int { usualSize(of: [message].span, 0) }

    func sizeLimit(of message: IncomingMessage) -> Int { sizeLimit(of: [message].span, 0) }

    func isAck(of message: IncomingMessage, over limit: Int) -> Bool {
        var encoder = self
        encoder.limit = limit
        return message.bytes.withUnsafeBufferPointer {
            encoder.isTooLarge(message.answer, from: message.stanzaFrom, to: message.stanzaTo, in: $0)
        }
    }
}

func escaped(_ text: some Sequence<UInt8>) -> String {
    var bytes: [UInt8] = []
    bytes.append(escaping: text)
    return String(decoding: bytes, as: UTF8.self)
}

/// A message whose payload is this text, read by the real framer.
func envelope(_ json: String, attributes: String = "") throws -> Stanza {
    try stanza("<message \(attributes)><gcm xmlns='google:mobile:data'>\(escaped(json.utf8))</gcm></message>")
}

/// A message whose payload is any bytes, without a framer that could refuse them.
func rawEnvelope(_ payload: [UInt8]) -> Stanza {
    let made = Stanza()
    func store(_ text: [UInt8]) -> Range<Int> {
        made.bytes += text
        return made.bytes.count - text.count..<made.bytes.count
    }
    let name = store(Array("message".utf8))
    let namespace = store(Array("jabber:client".utf8))
    let inner = store(Array("gcm".utf8))
    let innerNamespace = store(Array("google:mobile:data".utf8))
    let text = store(payload)
    made.raw = Array("<message/>".utf8)
    made.elements = [
        .init(depth: 0, name: name, namespace: namespace, attributes: 0..<0, text: 0..<0, end: 2),
        .init(depth: 1, name: inner, namespace: innerNamespace, attributes: 0..<0, text: text, end: 2),
    ]
    return made
}

func makeCodec(
    dialect: Dialect = .ccs,
    scope: IDScope = .sender,
    trusted: [String] = ["devices@gcm.googleapis.com"]
) throws -> UpstreamCodec {
    var settings = StreamSettings(
        senderID: "1234567890",
        domain: "fcm.googleapis.com",
        dialect: dialect,
        trustedFrom: trusted,
        index: 3
    )
    settings.idScope = scope
    var codec = UpstreamCodec(settings)
    codec.bound(to: try #require(JID("1234567890@fcm.googleapis.com/resource")))
    return codec
}

func decode(_ stanza: Stanza, dialect: Dialect = .ccs, scope: IDScope = .sender) throws -> DecodedStanza {
    var codec = try makeCodec(dialect: dialect, scope: scope)
    return codec.decode(stanza, receivedAt: 1_700_000_000_000_000, parsedAt: 42)
}

func decodeMessage(_ json: String, scope: IDScope = .sender) throws -> IncomingMessage {
    guard case .message(let message) = try decode(try envelope(json), scope: scope) else {
        throw Unexpected("not a message: \(json)")
    }
    return message
}

struct Unexpected: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

extension IncomingMessage {
    func text(_ span: ByteSpan?) -> String? { span.map { String(decoding: bytes[$0.range], as: UTF8.self) } }
    func part(_ span: ByteSpan?) -> [UInt8]? { span.map { Array(bytes[$0.range]) } }

    /// The id that its answer echoes.
    var ackMessageID: ByteSpan? {
        switch answer {
        case .gcm(let id, _), .json(let id, _), .receipt(let id): id
        case .none, .tooLarge: nil
        }
    }

    /// The token that its answer echoes.
    var ackTo: ByteSpan? {
        switch answer {
        case .gcm(_, let to), .json(_, let to): to
        case .none, .tooLarge, .receipt: nil
        }
    }
}

/// The words of a stanza kind for comparisons.
func word(_ kind: DecodedStanza) -> String {
    switch kind {
    case .message(let message): "\(message.kind)" + (message.quarantine.map { " \($0.rawValue)" } ?? "")
    case .messages(let messages): messages.map { word(.message($0)) }.joined(separator: ", ")
    case .ack: "ack"
    case .nack(let code): "nack \(code.rawValue)"
    case .control(let type): "control \(type.rawValue)"
    case .error: "error"
    case .untrusted: "untrusted"
    case .archived: "archived"
    case .other: "other"
    }
}

/// Runs a Python program on lines of input and gives its lines of output: the foreign parsers of these tests.
///
/// A machine without `python3` fails the test.
func python(_ program: String, _ lines: [String]) throws -> [String] {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", program]
    let folder = FileManager.default.temporaryDirectory.appending(path: "xmpp-tests-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let input = folder.appending(path: "in")
    let output = folder.appending(path: "out")
    try Data(lines.map { $0 + "\n" }.joined().utf8).write(to: input)
    try Data().write(to: output)
    process.standardInput = try FileHandle(forReadingFrom: input)
    process.standardOutput = try FileHandle(forWritingTo: output)
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw Unexpected("python3 ended with \(process.terminationStatus)") }
    return String(decoding: try Data(contentsOf: output), as: UTF8.self)
        .split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
}

func hex(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
}

/// A small reproducible generator (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }
}

/// A session on a stream that was bound at time 0.
func makeSession(
    _ offer: StreamManagement.Offer = .unused,
    dialect: Dialect? = nil,
    window: Int? = 100
) throws -> Session {
    let stream = BoundStream(
        address: try #require(JID("1234567890@fcm.googleapis.com/r")),
        greeting: [],
        management: offer
    )
    return makeSession(on: stream, dialect: dialect ?? (offer == .unused ? .ccs : .xmpp), window: window)
}

/// A session on this stream, which was bound at time 0; without a window it takes no messages.
func makeSession(on stream: BoundStream, dialect: Dialect = .ccs, window: Int? = 100) -> Session {
    var settings = StreamSettings(
        senderID: "1234567890",
        domain: "fcm.googleapis.com",
        dialect: dialect,
        trustedFrom: ["devices@gcm.googleapis.com"],
        index: 3
    )
    settings.window = window ?? 100
    return Session(settings, takesMessages: window != nil, idPrefix: "r", stream: stream, now: 0)
}

/// A negotiation with the account `user@example.org` of a standard server.
func makeNegotiation(secret: String = "pencil", _ change: (inout StreamSettings) -> Void = { _ in }) -> Negotiation {
    var settings = StreamSettings(senderID: "user", domain: "example.org", dialect: .xmpp)
    change(&settings)
    let nonce = (0..<18).map { UInt8($0 * 13) }
    return Negotiation(settings, secret: Secret(Array(secret.utf8)), idPrefix: "r4nd", nonce: nonce)
}

/// What a session's tests say to it.
enum Said {
    static let good =
        "<message><gcm xmlns='google:mobile:data'>{\"message_id\":\"1\",\"from\":\"t\",\"category\":\"c\"}</gcm></message>"
    static let drain =
        "<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"control\",\"control_type\":\"CONNECTION_DRAINING\"}</gcm></message>"
    static let shutdown =
        "<stream:error><system-shutdown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
    static let enabled = "<enabled xmlns='urn:xmpp:sm:3' resume='false'/>"
    static let question = "<r xmlns='urn:xmpp:sm:3'/>"
}

/// The bytes as text.
func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

extension Session {
    /// Hears a stanza at time 0.
    mutating func hear(_ xml: String) throws -> StanzaAction {
        stanza(try XMPPTests.stanza(xml), receivedAt: 0, parsedAt: 0)
    }

    /// Is given a message that it delivers.
    mutating func deliver() throws -> IncomingMessage {
        guard case .deliver(let message, _) = try hear(Said.good) else { throw Unexpected("not delivered") }
        return message
    }

    /// Is told at time 0 that messages have committed.
    mutating func committed(_ messages: [IncomingMessage]) -> Settlement {
        committed(messages.count, size: messages.reduce(0) { $0 + $1.bytes.count }, now: 0) { messages }
    }
}
