/// Recognises TLS by a peer's first bytes.
package enum TLSProbe {
    /// Whether a first byte begins a TLS record (RFC 8446 §5.1: content types 20 to 23).
    ///
    /// None of these bytes can begin an XML document.
    package static func looksLikeTLSRecord(_ first: UInt8) -> Bool {
        (20...23).contains(first)
    }

    /// Whether the first bytes begin a TLS record, as far as they go.
    ///
    /// The second byte, if there is one, is the major version, which is 3 in every version of the protocol.
    package static func looksLikeTLSRecord(_ first: some Sequence<UInt8>) -> Bool {
        var iterator = first.makeIterator()
        guard let type = iterator.next(), self.looksLikeTLSRecord(type) else { return false }
        guard let major = iterator.next() else { return true }
        return major == 3
    }

    /// The error for a peer whose first bytes are not a TLS record.
    static func plaintextPeer(first: some Sequence<UInt8>) -> TLSError {
        let bytes = Array(first.prefix(5))
        let text: String
        if bytes.first == UInt8(ascii: "<") {
            text = "it sent XML: this port begins in plaintext, set tls.mode: starttls"
        } else if bytes.starts(with: "HTTP".utf8) {
            text = "it speaks plaintext HTTP: check host and port"
        } else if bytes.starts(with: "SSH-".utf8) {
            text = "it is an SSH server: check host and port"
        } else {
            text = "check the port, or set tls.mode: starttls if the server begins in plaintext"
        }
        return TLSError(.plaintextPeer, "the peer does not speak TLS here; " + text)
    }
}
