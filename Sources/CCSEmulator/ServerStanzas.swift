import XMLWire

/// The emulator's output besides messages, in the hosted service's forms (docs/protocol.md, A CCS).
enum ServerStanzas {
    static let streamEnd = "</stream:stream>"

    /// The ` id="…"` of an answer to this stanza; empty if it has none.
    static func id(of stanza: Stanza) -> String {
        stanza.attribute("id", of: 0).map { " id=\"\(XMLEscape.string(stanza.string($0)))\"" } ?? ""
    }

    static func result(for stanza: Stanza) -> String { "<iq type=\"result\"\(id(of: stanza))/>" }

    static func notSupported(_ stanza: Stanza) -> String {
        "<iq type=\"error\"\(id(of: stanza))><error code=\"501\" type=\"cancel\"><feature-not-implemented "
            + "xmlns=\"\(Namespace.stanzas)\"/></error></iq>"
    }

    static func ping(id: Int) -> String {
        "<iq type=\"get\" id=\"ping-\(id)\"><ping xmlns=\"urn:xmpp:ping\"/></iq>"
    }

    static func refusal(of text: some Collection<UInt8>, code: Int, reason: String) -> [UInt8] {
        var output = Array("<message type=\"error\">".utf8)
        EnvelopeForm.prefixed.wrap(text, into: &output)
        let condition = code == 406 ? "not-acceptable" : "bad-request"
        output +=
            ("<error code=\"\(code)\" type=\"modify\"><\(condition) xmlns=\"\(Namespace.stanzas)\"/>"
            + "<text xmlns=\"\(Namespace.stanzas)\">\(XMLEscape.string(reason))</text></error></message>").utf8
        return output
    }

    static let notHere = "Received acks for messages not sent over this connection"

    static let draining: [UInt8] = message(#"{"message_type":"control","control_type":"CONNECTION_DRAINING"}"#)

    static func nack(code: String, id: String, sender: String) -> [UInt8] {
        message(
            #"{"message_type":"nack","message_id":"\#(id)","from":"\#(sender)","error":"\#(code)","#
                + #""error_description":"sent by a fault script"}"#
        )
    }

    static func streamError(_ condition: String) -> String {
        // RFC 6120 §4.9.3.19 requires a host in it.
        let content = condition == "see-other-host" ? ">other.invalid:5235</see-other-host>" : "/>"
        return "<stream:error><\(condition) xmlns=\"\(Namespace.streams)\"\(content)</stream:error>"
    }

    /// Stanzas that a receiver must ignore.
    static func noise(address: StanzaAddress) -> [UInt8] {
        var output = Array("<presence from=\"someone@gcm.googleapis.com\"/>".utf8)
        output += "<message from=\"devices@gcm.googleapis.com\"><body>hello</body></message>".utf8
        output += "<message from=\"mallory@evil.invalid/x\">".utf8
        EnvelopeForm.defaultNamespace.wrap(
            #"{"message_id":"noise","from":"FAKE-noise","category":"noise","data":{}}"#.utf8,
            into: &output
        )
        output += "</message><novelty xmlns=\"urn:example:novelty\"/>".utf8
        return output
    }

    /// Without `type` and `from`, and prefixed, like the hosted service's own messages.
    private static func message(_ json: String) -> [UInt8] {
        var output = Array("<message>".utf8)
        EnvelopeForm.prefixed.wrap(json.utf8, into: &output)
        return output + Array("</message>".utf8)
    }
}
