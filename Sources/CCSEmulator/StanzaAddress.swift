/// The start tag of the emulator's upstream stanzas.
package struct StanzaAddress: Sendable, Equatable {
    package var from: String?
    package var to: String?

    package init(from: String?, to: String?) {
        self.from = from
        self.to = to
    }

    package func stanza(around json: some Collection<UInt8>, form: EnvelopeForm) -> [UInt8] {
        var output = Array("<message".utf8)
        if let from { output += #" from="\#(XMLEscape.string(from))""#.utf8 }
        if let to { output += #" to="\#(XMLEscape.string(to))""#.utf8 }
        output += #" type="normal">"#.utf8
        form.wrap(json, into: &output)
        output += "</message>".utf8
        return output
    }
}
