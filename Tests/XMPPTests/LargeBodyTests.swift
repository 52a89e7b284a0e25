import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// Texts of 1 MiB (`limits.stanza: 2MiB`), as bodies and in whole stanzas.
@Suite struct LargeBodyTests {
    private static let size = 1 << 20
    private static let limits: StreamLimits = {
        var limits = StreamLimits()
        limits.stanzaBytes = 2 << 20
        return limits
    }()

    private static func message(
        _ body: String,
        _ form: PayloadForm = .body,
        json: Bool = false,
        limits: StreamLimits = limits
    ) throws -> IncomingMessage {
        var codec = try JSONPayloadTests.codec(PayloadFormTests.plain(form, json: json))
        let stanza = try stanza(
            "<message from='\(JSONPayloadTests.device)' id='s1'><body>\(body)</body>"
                + "<request xmlns='urn:xmpp:receipts'/></message>",
            limits
        )
        guard case .message(let message) = codec.decode(stanza, receivedAt: 5, parsedAt: 7) else {
            throw Unexpected("no message")
        }
        return message
    }

    @Test(
        "a body of 1 MiB is one message, acked by its id, in few times its memory",
        arguments: [("x", "x", 1), ("é", "é", 2), ("😀", "&#128512;", 4), ("\"", "&quot;", 1), ("\\", "\\", 1)]
    )
    func texts(_ character: String, _ sent: String, _ bytes: Int) throws {
        let count = Self.size / bytes
        let message = try Self.message(String(repeating: sent, count: count))
        let data = try #require(message.part(message.data))
        let text = Array(data.dropFirst().dropLast()).withUnsafeBufferPointer { JSONLiteral.text(of: $0) }
        #expect(text == Array(String(repeating: character, count: count).utf8))
        #expect(message.quarantine == nil && message.dataForm == .json && message.text(message.messageID) == "s1")
        #expect(JSONPayloadTests.ack(message).contains("id=\"s1\""))
        #expect(message.bytes.count <= sent.utf8.count * count + 5 * Self.size)
        // However a server spells it, it is the same message.
        guard character == "é" else { return }
        let again = try Self.message(String(repeating: "&#233;", count: count))
        #expect(again.messageKey == message.messageKey && again.fingerprint == message.fingerprint)
    }

    @Test("with body_json 1 MiB of JSON is the JSON that it is, however deep; a whole stanza holds it twice")
    func json() throws {
        let list = "[" + String(repeating: "1,", count: Self.size / 2) + "1]"
        let flat = try Self.message(list, json: true)
        #expect(flat.quarantine == nil && flat.dataForm == .json && flat.text(flat.data) == list)
        let brackets = ["[", "]"].map { String(repeating: $0, count: Self.size / 2) }.joined()
        let deep = try Self.message(brackets, json: true)
        #expect(deep.quarantine == nil && deep.dataForm == .raw && deep.text(deep.data) == brackets)
        let torn = try Self.message(String(brackets.dropLast()), json: true)
        #expect(torn.quarantine == nil && torn.dataForm == .json && torn.text(torn.data)?.hasPrefix("\"[[") == true)
        let whole = try Self.message(String(repeating: "x", count: Self.size), .stanza)
        let parts = [whole.part(whole.data), whole.part(whole.extra)].map { $0?.count ?? 0 }
        #expect(whole.quarantine == nil && parts.allSatisfy { $0 > Self.size }, "\(parts)")
    }

    @Test("a body over limits.stanza is no message")
    func tooLong() throws {
        var limits = Self.limits
        limits.stanzaBytes = Self.size
        let body = String(repeating: "x", count: Self.size)
        #expect(throws: XMLStreamError.self) { try Self.message(body, limits: limits) }
        limits.stanzaBytes += 1_000
        #expect(try Self.message(body, limits: limits).quarantine == nil)
    }
}
