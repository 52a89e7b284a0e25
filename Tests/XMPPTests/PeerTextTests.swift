import Testing

@testable import XMPP

/// What of a peer's words comes to be seen.
@Suite struct PeerTextTests {
    /// Servers quote what they got: in texts, in names of their own making, in lists.
    @Test("errors show conditions that the RFC defines, and no text of the peer")
    func nothingThatThePeerChoseToSayIsShown() throws {
        let token = "APA91b-token:with_what_tokens_have"
        func error(_ point: NegotiationTests.Point, _ xml: String) throws -> NegotiationError {
            var negotiation = try NegotiationTests.reach(point)
            guard case .fail(let error) = negotiation.stanza(try stanza(xml), trailingBytes: 0) else {
                throw Unexpected("went on: \(xml)")
            }
            return error
        }
        let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
        let stanzas = "urn:ietf:params:xml:ns:xmpp-stanzas"
        let streams = "urn:ietf:params:xml:ns:xmpp-streams"
        let rows: [(NegotiationTests.Point, String, String)] = [
            (
                .authenticating, "<failure xmlns='\(sasl)'><not-authorized/><text>\(token)</text></failure>",
                "not-authorized"
            ),
            (.authenticating, "<failure xmlns='\(sasl)'><APA91b-token_x/></failure>", "undefined-condition"),
            (
                .binding,
                "<iq type='error' id='r4nd-bind'><error type='wait'><resource-constraint xmlns='\(stanzas)'/>"
                    + "<text xmlns='\(stanzas)'>\(token)</text></error></iq>",
                "resource-constraint"
            ),
            (
                .binding,
                "<stream:error><reset xmlns='\(streams)'/><text xmlns='\(streams)'>\(token)</text></stream:error>",
                "reset"
            ),
            (.binding, "<stream:error><APA91b-token_x xmlns='\(streams)'/></stream:error>", "undefined-condition"),
            (
                .featuresSecured,
                "<stream:features><mechanisms xmlns='\(sasl)'><mechanism>\(token)</mechanism>"
                    + "<mechanism>X-OAUTH2</mechanism><mechanism>&#9;&#x202e;[31m</mechanism></mechanisms></stream:features>",
                "offered: X-OAUTH2;"
            ),
        ]
        for (point, xml, words) in rows {
            let message = try error(point, xml)
            #expect(message.message.contains(words) && !"\(message)".contains("APA91b"), "\(message)")
            #expect(!(message.condition ?? "").contains("APA91b"))
        }
        // The one thing that is quoted, since an operator has to decide about it.
        let other = try error(
            .binding,
            "<stream:error><see-other-host xmlns='\(streams)'>a&#10;\(String(repeating: "k", count: 41)).[::1]:5222</see-other-host></stream:error>"
        )
        #expect(other.message.contains("see-other-host (a?kkk") == false && other.message.contains("[…].[::1]:5222"))
        #expect(other.message.allSatisfy { $0 != "\n" })
    }

    @Test("an offer of ten thousand mechanisms costs little")
    func tenThousandMechanismsAreNoBurden() throws {
        var negotiation = try NegotiationTests.reach(.featuresSecured)
        // As many as a stanza may have elements.
        let names = (0..<4_000).map { "<mechanism>X-\($0)</mechanism>" }.joined()
        let made = try stanza(
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(names)</mechanisms></stream:features>"
        )
        guard case .fail(let error) = negotiation.stanza(made, trailingBytes: 0) else { throw Unexpected("went on") }
        #expect(error.code == .noMechanism && error.message.utf8.count < 500)
        #expect(PeerText.mechanisms((0..<10_000).map { "X-\($0)" }).utf8.count < 120)
    }
}
