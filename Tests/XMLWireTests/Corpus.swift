/// One stream that has about everything a well-behaved peer may write.
enum Corpus {
    static let stanzas: [String] = [
        "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms></stream:features>",
        "<message to='1@gcm' type='normal'><gcm xmlns='google:mobile:data'>{\"a\":\"b\"}</gcm></message>",
        "<message><data:gcm xmlns:data=\"google:mobile:data\">{&quot;a&quot;:&quot;&#x22;&#34;&lt;&gt;&amp;&apos;&quot;}</data:gcm></message>",
        "<message id=''><gcm xmlns='google:mobile:data'><![CDATA[{\"a\":\"<b>]]]]><![CDATA[>&amp;\"}]]></gcm></message>",
        "<message><gcm xmlns='google:mobile:data'><![CDATA[{\r\n\r\r\n}]]>\r<![CDATA[\n\r]]></gcm></message>",
        "<message><gcm xmlns='google:mobile:data'>é€😀\u{FFFD}&#233;&#x1F600; \t\r\n-\r-\n]] ></gcm></message>",
        "<message a='1 > 2' b=\"it's\" c='say \"x\"' d='&#9;&#10;&#13; \t\r\n' xml:lang='de' e=''\n\tf = 'g' ></message >",
        "<a/>",
        "<a></a>",
        "<message>one<b>two<c/>three</b>four<b/>five<!-- -->".replacingComment + "six</message>",
        "<message><message><message xmlns=''/></message><delay xmlns='urn:xmpp:delay'/></message>",
        "<p:m xmlns:p='urn:p'><p:n p:x='1' x='2'/><q xmlns:p='urn:q' p:x='3'/></p:m>",
        "<iq type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>1@gcm/r</jid></bind></iq>",
        "<message>" + String(repeating: "0123456789 <e/> \"'>", count: 120).replacingMarkup + "</message>",
        "<long-name-of-an-element-" + String(repeating: "x", count: 400) + " y='" + String(repeating: "z>", count: 300)
            + "'/>",
    ]

    static let text =
        "<?xml version='1.0' encoding=\"utf-8\"?>\n" + header + " \n" + stanzas.joined(separator: "\n")
        + stanzas.joined() + " \t\r\n </stream:stream>\n"

    static let bytes = Array(text.utf8)

    /// Each stanza once: half the stream, where every offset of it costs another.
    static let once = Array((header + stanzas.joined() + "</stream:stream>\n").utf8)
}

extension String {
    fileprivate var replacingComment: String { replacing("<!-- -->", with: "") }
    fileprivate var replacingMarkup: String { replacing("<e/>", with: "&lt;e/&gt;") }

    private func replacing(_ part: String, with other: String) -> String {
        split(separator: part, omittingEmptySubsequences: false).joined(separator: other)
    }
}
