/// The settings of a session.
package struct SessionConfiguration: Sendable {
    /// The XMPP domain, to which pings go.
    package var domain: String
    /// The prefix of the ids of our IQs; random for each connection.
    package var idPrefix: String
    /// The time from the last proof that the peer receives to the next ping (configuration key `keepalive.interval`).
    package var keepaliveInterval: Duration
    /// The time that the peer has to answer (configuration key `keepalive.timeout`).
    package var keepaliveTimeout: Duration
    /// How long we wait for the peer's `</stream:stream>` after ours, and, if the peer closes first, for our own
    /// messages in flight.
    package var closeTimeout: Duration
    /// The unacked messages that the peer allows (configuration key `window`); nil if messages are ignored.
    package var window: Int?
    /// Whether this is an external component's connection (XEP-0114); `domain` is then the component's.
    package var isComponent: Bool
    /// The priority of our presence (configuration key `priority`).
    package var priority: Int8
    /// The worker's version, told to those who may know (XEP-0092).
    package var version: String

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
