/// Which kind of server the peer is (configuration key `dialect`).
package enum Dialect: String, Sendable, CaseIterable {
    /// A CCS-compatible server: no presence, and acks carry no stanza `to`.
    case ccs
    /// A standard XMPP server: initial presence, and acks are addressed to the sender of the stanza.
    case xmpp
    /// A standard server with which we sign in as an external component (XEP-0114): all local parts of a domain are ours, and
    /// acks go from the address that a message went to, to the sender of its stanza.
    case component
}

/// Over what a device's `message_id` is unique (configuration key `id_scope`).
package enum IDScope: String, Sendable, CaseIterable {
    /// Over the sender, as the protocol says.
    case sender
    /// Over the registration token: for apps whose ids repeat across devices.
    case device
}
