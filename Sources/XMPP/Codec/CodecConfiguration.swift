import Glibc

/// What the codec of one connection needs to know of its sender.
package struct CodecConfiguration: Sendable {
    /// Index of the sender among the configured ones; goes into each message.
    package var sender: UInt16
    /// The sender's id: the first part of every message's key.
    package var senderID: String
    /// The XMPP domain; a stanza from it, without a localpart and resource, is trusted.
    package var domain: String
    /// Which kind of server the peer is.
    package var dialect: Dialect
    /// Over what a `message_id` is unique.
    package var idScope: IDScope
    /// More addresses whose stanzas are trusted.
    ///
    /// One without a resource covers all its resources: a server stamps a client's full address on what the client sends.
    /// Entries that are no addresses are left out; the configuration's check reports them.
    package var trustedFrom: [String]

    /// The configuration of a sender.
    package init(
        sender: UInt16,
        senderID: String,
        domain: String,
        dialect: Dialect = .ccs,
        idScope: IDScope = .sender,
        trustedFrom: [String] = []
    ) {
        self.sender = sender
        self.senderID = senderID
        self.domain = domain
        self.dialect = dialect
        self.idScope = idScope
        self.trustedFrom = trustedFrom
    }
}

/// Whose stanzas may carry payloads (docs/protocol.md, A standard server).
///
/// The stanza's `from` is set by the server and can be relied on; the JSON's `from` can't.
struct TrustedSenders: Sendable {
    /// The texts of all that are trusted: how a server writes them in nearly every stanza.
    private var texts: [[UInt8]] = []
    private var exact: [JID] = []
    private var withAnyResource: [JID] = []
    private var own: JID?

    /// The domain itself and the configured addresses.
    init(domain: String, trustedFrom: [String]) {
        if let domain = JID(domain), domain.local == nil { add(exact: domain.bare) }
        for address in trustedFrom.compactMap({ JID($0) }) {
            if address.resource == nil {
                withAnyResource.append(address)
                texts.append(Array(address.description.utf8))
            } else {
                add(exact: address)
            }
        }
    }

    private mutating func add(exact address: JID) {
        exact.append(address)
        texts.append(Array(address.description.utf8))
    }

    /// Trusts our own bare address, on whose behalf the server speaks (RFC 6120 section 8.1.2.1).
    mutating func insert(own address: JID) {
        own = address.bare
        add(exact: address.bare)
    }

    /// Whether a `from` attribute is our own address, with any resource or none.
    func isOwn(_ from: UnsafeBufferPointer<UInt8>) -> Bool { own?.matches(from, anyResource: true) ?? false }

    /// Whether a `from` attribute is one of them.
    func contains(_ from: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = from.baseAddress else { return false }
        // Both borrowed for the call.
        for text in texts where text.count == from.count && memcmp(text, start, text.count) == 0 { return true }
        for address in exact where address.matches(from) { return true }
        for address in withAnyResource where address.matches(from, anyResource: true) { return true }
        return false
    }
}
