/// What a session is run with.
package struct SessionConfiguration: Sendable {
    /// The XMPP domain, which pings go to.
    package var domain: String
    /// The beginning of the ids of our IQs; random for each connection.
    package var idPrefix: String
    /// How long after the last proof that it hears us the peer is pinged (configuration key `keepalive.interval`).
    package var keepaliveInterval: Duration
    /// How long it has to answer (configuration key `keepalive.timeout`).
    package var keepaliveTimeout: Duration
    /// How long we wait for the peer's `</stream:stream>` after ours, and, when the peer closes first, for our own
    /// messages under way.
    package var closeTimeout: Duration
    /// Unacked messages that the peer allows (configuration key `window`); nil where messages are passed over.
    package var window: Int?
    /// Whether this is an external component's connection (XEP-0114), `domain` then being the component's.
    package var isComponent: Bool
    /// The priority of our presence (configuration key `priority`).
    package var priority: Int8
    /// The worker's version, which it tells to those who may know (XEP-0092).
    package var version: String

    /// The configuration of one connection.
    package init(
        domain: String,
        idPrefix: String,
        keepaliveInterval: Duration = .seconds(30),
        keepaliveTimeout: Duration = .seconds(15),
        closeTimeout: Duration = .seconds(2),
        window: Int? = 100,
        isComponent: Bool = false,
        priority: Int8 = 0,
        version: String = ""
    ) {
        self.domain = domain
        self.idPrefix = idPrefix
        self.keepaliveInterval = keepaliveInterval
        self.keepaliveTimeout = keepaliveTimeout
        self.closeTimeout = closeTimeout
        self.window = window
        self.isComponent = isComponent
        self.priority = priority
        self.version = version
    }
}
