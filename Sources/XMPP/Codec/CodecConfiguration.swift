/// What the codec of one connection needs to know of its sender.
package struct CodecConfiguration: Sendable {
    /// Index of the sender among the configured ones; goes into each message.
    package var sender: UInt16
    /// The sender's id: the first part of every message's key.
    package var senderID: String
    /// The XMPP domain; a stanza from it, without a localpart and resource, is trusted.
    ///
    /// With ``Dialect/component`` the component's own, which nobody else may speak for: it is not trusted.
    package var domain: String
    /// Which kind of server the peer is.
    package var dialect: Dialect
    /// Over what a `message_id` is unique.
    package var idScope: IDScope
    /// What carries the messages, and how they are answered.
    package var payload: Payload
    /// More addresses whose stanzas are trusted.
    ///
    /// See ``TrustedSenders``. Entries that are no addresses are left out; the configuration's check reports them.
    package var trustedFrom: [String]

    /// The configuration of a sender.
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
