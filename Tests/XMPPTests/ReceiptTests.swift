import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// Delivery receipts (XEP-0184) as the answer to stored messages.
@Suite struct ReceiptTests {
    private static let receipts: PlainPayload = {
        var json = JSONPayloadTests.every
        json.ack = .receipt
        return json
    }()
    private static let request = "<request xmlns='urn:xmpp:receipts'/>"
    private static let good = JSONPayloadTests.container(#"{"message_id":"m1","from":"t","category":"c"}"#)

    private func message(_ children: String, _ attributes: String = "id='s1'") throws -> IncomingMessage {
        try JSONPayloadTests.message(children, attributes, Self.receipts)
    }

    @Test("a receipt names the stanza's id, whatever the payload's id is, and goes to the stanza's sender")
    func form() throws {
        let message = try message(Self.good + Self.request)
        #expect(message.quarantine == nil && message.answer.isSent && message.text(message.messageID) == "m1")
        #expect(
            JSONPayloadTests.ack(message)
                == "<message to=\"\(JSONPayloadTests.device)\"><received xmlns=\"urn:xmpp:receipts\" id=\"s1\"/></message>"
        )
        // Also where an origin-id is the message's.
        let origin = try self.message(
            "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>" + JSONPayloadTests.container("{}") + Self.request
        )
        #expect(
            origin.text(origin.messageID) == "o1" && JSONPayloadTests.ack(origin).contains("id=\"s1\"")
        )
    }

    @Test("who asks for no receipt is stored and gets none")
    func notAsked() throws {
        for children in [
            Self.good, Self.good + "<received xmlns='urn:xmpp:receipts' id='x'/>",
            Self.good + "<request xmlns='urn:x'/>",
            Self.good + "<x>\(Self.request)</x>",
        ] {
            let message = try message(children)
            #expect(message.kind == .upstream && message.quarantine == nil && !message.answer.isSent, "\(children)")
            #expect(JSONPayloadTests.ack(message).isEmpty)
            #expect(AckEncoder(dialect: .xmpp).sizeLimit(of: message) == 0)
        }
    }

    @Test("a request without a stanza id can't be answered: the message is kept in quarantine")
    func withoutID() throws {
        for attributes in ["", "id=''"] {
            let message = try message(Self.good + Self.request, attributes)
            #expect(message.kind == .malformed && message.quarantine == .messageIDUnusable && !message.answer.isSent)
            #expect("\(message.quarantineDetail)".contains("receipt"))
            #expect(JSONPayloadTests.ack(message).isEmpty)
        }
    }

    @Test("what is quarantined with an ack gets its receipt; what is not, none")
    func quarantined() throws {
        let acked = try message(JSONPayloadTests.container(#"{"category":7}"#) + Self.request)
        #expect(
            acked.quarantine == .categoryUnusable && JSONPayloadTests.ack(acked).contains("id=\"s1\"")
        )
        let not = try message(JSONPayloadTests.container("[]") + Self.request)
        #expect(not.quarantine == .payloadNotJSON && JSONPayloadTests.ack(not).isEmpty)
    }

    @Test("ids that try to break out of the attribute stay inside")
    func hostileIDs() throws {
        for id in ["\"/><x a=\"", "'", "<&>", "a\tb\nc\rd", "é😀", "]]>", "&amp;"] {
            let message = try message(Self.good + Self.request, "id='\(escaped(id.utf8))'")
            let reply = try stanza(JSONPayloadTests.ack(message))
            #expect(reply.elements.count == 2)
            let named = try #require(reply.attribute("id", of: 1))
            #expect(reply.string(named) == id)
        }
    }

    @Test("a receipt that would be longer than the server takes is none")
    func tooLong() throws {
        let id = String(repeating: "\"", count: 12_000)
        let message = try message(Self.good + Self.request, "id='\(escaped(id.utf8))'")
        #expect(message.answer == .tooLarge && message.kind == .malformed && message.quarantine == .fieldTooLong)
    }
}
