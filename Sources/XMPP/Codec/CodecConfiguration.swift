/// The codec's view of a connection's sender.
package struct CodecConfiguration: Sendable {
    /// The sender's index among the configured ones; goes into each message.
    package var sender: UInt16
    /// The sender's id: the first part of every message's key.
    package var senderID: String
    /// The XMPP domain; a stanza from it, without a localpart and resource, is trusted.
    ///
    /// With ``Dialect/component`` it is the component's own domain, which is not trusted: nobody else may speak for it.
    package var domain: String
    /// The kind of server.
    package var dialect: Dialect
    /// The scope within which a `message_id` is unique.
    package var idScope: IDScope
    /// The form of messages and acks.
    package var payload: Payload
    /// Further addresses whose stanzas are trusted.
    ///
    /// See ``TrustedSenders``. Entries that are not addresses are ignored; the configuration's check reports them.
    package var trustedFrom: [String]

    package init(
        sender: UInt16,
        senderID: String,
        domain: String,
        dialect: Dialect = .ccs,
        idScope: IDScope = .sender,
        payload: Payload = .gcm,
        trustedFrom: [String] = []
    ) {
        self.sender = sender
        self.senderID = senderID
        self.domain = domain
        self.dialect = dialect
        self.idScope = idScope
        self.payload = payload
        self.trustedFrom = trustedFrom
    }
}
