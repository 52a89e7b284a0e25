/// The XML namespaces of this worker; computed, so that the hot path has no lazy global.
package enum XMLNamespace {
    /// Stanzas of a client connection (RFC 6120 section 4.8.2).
    package static var client: StaticString { "jabber:client" }
    /// Stanzas of an external component (XEP-0114 section 3), which the stream's handler reads as those of ``client``.
    package static var component: StaticString { "jabber:component:accept" }
    /// The stream, its features and its errors (RFC 6120 section 4.8.1).
    package static var streams: StaticString { "http://etherx.jabber.org/streams" }
    /// Conditions of stream errors (RFC 6120 section 4.9).
    package static var streamErrors: StaticString { "urn:ietf:params:xml:ns:xmpp-streams" }
    /// Conditions of stanza errors (RFC 6120 section 8.3).
    package static var stanzaErrors: StaticString { "urn:ietf:params:xml:ns:xmpp-stanzas" }
    /// STARTTLS (RFC 6120 section 5).
    package static var tls: StaticString { "urn:ietf:params:xml:ns:xmpp-tls" }
    /// SASL (RFC 6120 section 6).
    package static var sasl: StaticString { "urn:ietf:params:xml:ns:xmpp-sasl" }
    /// The extensible profile of SASL (XEP-0388).
    package static var sasl2: StaticString { "urn:xmpp:sasl:2" }
    /// Types of channel binding (XEP-0440).
    package static var channelBinding: StaticString { "urn:xmpp:sasl-cb:0" }
    /// Resource binding (RFC 6120 section 7).
    package static var bind: StaticString { "urn:ietf:params:xml:ns:xmpp-bind" }
    /// Session establishment (RFC 3921 section 3; of old servers).
    package static var session: StaticString { "urn:ietf:params:xml:ns:xmpp-session" }
    /// Ping (XEP-0199).
    package static var ping: StaticString { "urn:xmpp:ping" }
    /// Software version (XEP-0092).
    package static var version: StaticString { "jabber:iq:version" }
    /// Service discovery: what an address is and can do (XEP-0030).
    package static var discoveryInfo: StaticString { "http://jabber.org/protocol/disco#info" }
    /// Service discovery: what belongs to an address (XEP-0030).
    package static var discoveryItems: StaticString { "http://jabber.org/protocol/disco#items" }
    /// Delayed delivery (XEP-0203).
    package static var delay: StaticString { "urn:xmpp:delay" }
    package static var streamManagement: StaticString { "urn:xmpp:sm:3" }
    /// Stream limits (XEP-0478).
    package static var streamLimits: StaticString { "urn:xmpp:stream-limits:0" }
    /// JSON containers (XEP-0335).
    package static var json: StaticString { "urn:xmpp:json:0" }
    /// Delivery receipts (XEP-0184).
    package static var receipts: StaticString { "urn:xmpp:receipts" }
    /// Events of PubSub nodes (XEP-0060).
    package static var events: StaticString { "http://jabber.org/protocol/pubsub#event" }
    /// The ids that devices and servers assign to stanzas (XEP-0359).
    package static var stanzaIDs: StaticString { "urn:xmpp:sid:0" }
    /// Message archives (XEP-0313).
    package static var archive: StaticString { "urn:xmpp:mam:2" }
    /// Pages of results (XEP-0059).
    package static var resultSet: StaticString { "http://jabber.org/protocol/rsm" }
    /// Forwarded stanzas (XEP-0297).
    package static var forward: StaticString { "urn:xmpp:forward:0" }
    /// Flexible retrieval of messages stored offline (XEP-0013), and its node of service discovery.
    package static var offline: StaticString { "http://jabber.org/protocol/offline" }
    /// Data forms (XEP-0004).
    package static var dataForm: StaticString { "jabber:x:data" }
    /// The CCS payload (`gcm`).
    package static var payload: StaticString { "google:mobile:data" }
}
