/// The kind of server (configuration key `dialect`).
package enum Dialect: String, Sendable, CaseIterable {
    /// A CCS-compatible server: no presence, and acks carry no stanza `to`.
    case ccs
    /// A standard XMPP server: initial presence, and acks are addressed to the sender of the stanza.
    case xmpp
    /// A standard server to which we are an external component (XEP-0114): all localparts of a domain are ours, and
    /// acks go from the address that a message was sent to, to the sender of its stanza.
    case component
}

/// The scope within which a device's `message_id` is unique (configuration key `id_scope`).
package enum IDScope: String, Sendable, CaseIterable {
    /// The sender, as in the protocol.
    case sender
    /// The registration token: for apps whose ids repeat across devices.
    case device
}
