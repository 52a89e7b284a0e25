import XMLWire

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

/// What a stream is for.
package enum StreamPurpose: Sendable {
    /// Messages come over it, from a standard server since it gives presence.
    case messages
    /// The account's offline store is read over it, without presence; what is written to its full address comes as well.
    case store
    /// The account's archive is read over it, without presence; nobody knows its address.
    case archive
}

/// The scope within which a device's `message_id` is unique (configuration key `id_scope`).
package enum IDScope: String, Sendable, CaseIterable {
    /// The sender, as in the protocol.
    case sender
    /// The registration token: for apps whose ids repeat across devices.
    case device
}

/// The settings of a sender's streams (configuration key `senders`): what negotiation, session and codec need.
package struct StreamSettings: Sendable, Equatable {
    /// The sender's index among the configured ones; goes into each message.
    package var index: UInt16
    /// The sender's id: the localpart of our address, and the first part of every message's key.
    package var senderID: String
    /// The XMPP domain: the `to` of the stream header; a component's own, spelled as in the server's configuration.
    package var domain: String
    /// The domain in each of its forms (RFC 7622 section 3.2.1), A-labels and U-labels: a server may return any.
    package var domainSpellings: [String]
    package var dialect: Dialect
    /// The user name for SASL.
    package var username: String
    /// Whether the secret itself may be sent (SASL PLAIN); by default only to a CCS, whose protocol has nothing else.
    package var allowsPlain: Bool
    /// Whether the proof of the secret must be valid for this TLS connection alone.
    package var channelBinding = ChannelBindingRule.preferred
    /// Whether this sender has signed in with channel binding before, which it then must.
    package var isBindingPinned = false
    /// The seconds from the worker's start until our client certificate (SASL EXTERNAL) expires; nil if there is none.
    package var certificateEnd: Int?
    /// The resource to bind; nil leaves the choice to the server.
    package var resource: String?
    /// The priority of our presence (RFC 6121 section 4.7.2.3).
    package var priority: Int8 = 0
    package var purpose = StreamPurpose.messages
    /// The longest message that is taken, in bytes; nil for any that the stream's limits allow.
    package var messageLimit: Int?
    /// Whether what the server has stored is fetched before each login, rather than sent all at once with our presence.
    package var storeIsFetched = false
    /// How long the server is asked to hold the session of a lost connection (XEP-0198 section 5); zero for not at all.
    package var resume = Duration.zero
    /// The hosts that `see-other-host` may name, each with or without its port.
    package var redirectHosts: [String] = []
    /// The most unacked messages that the peer allows on one connection.
    package var window = 100
    /// How many unacknowledged stanzas of a session a standard server keeps (configuration key `server_queue`).
    package var serverQueue = StreamSettings.usualQueue
    package var idScope = IDScope.sender
    /// The form of messages and acks.
    package var payload = Payload.gcm
    /// Further addresses whose stanzas are trusted (``TrustedSenders``); entries that are not addresses are ignored.
    package var trustedFrom: [String]
    /// The time from the last proof that the peer receives to the next ping.
    package var keepaliveInterval = Duration.seconds(30)
    /// The time limit for the answer to a ping, and for the peer to accept a write.
    package var keepaliveTimeout = Duration.seconds(15)
    /// The worker's version, told to permitted peers (XEP-0092).
    package var version = ""

    package init(
        senderID: String,
        domain: String,
        dialect: Dialect = .ccs,
        trustedFrom: [String] = [],
        index: UInt16 = 0
    ) {
        self.senderID = senderID
        self.domain = domain
        self.dialect = dialect
        self.trustedFrom = trustedFrom
        self.index = index
        domainSpellings = [domain]
        username = senderID
        allowsPlain = dialect == .ccs
    }

    /// The queue of a Prosody (`smacks_max_queue_size`) that nobody has configured; no server announces its own.
    package static let usualQueue = 500

    var isPresent: Bool { purpose == .messages }

    /// The window in use: at most half of a standard server's queue, lest it overflow before reading pauses.
    package var usedWindow: Int { dialect == .xmpp ? min(window, max(serverQueue / 2, 1)) : window }

    /// Our own address at the server, without a resource.
    package var address: String { "\(senderID)@\(domain)" }

    /// The component's domain; nil for a client.
    var component: ComponentDomain? { dialect == .component ? ComponentDomain(domain) : nil }

    /// The host, and the port if given, that a server redirects to by `see-other-host` or stream management's
    /// `location`, if the operator has listed it; a host listed with a port matches that port only.
    package func redirection(to other: String) -> (host: String, port: Int?)? {
        guard let place = StreamSettings.place(other) else { return nil }
        for listed in redirectHosts {
            guard let allowed = StreamSettings.place(listed), allowed.host.lowercased() == place.host.lowercased(),
                allowed.port == nil || allowed.port == place.port
            else { continue }
            return place
        }
        return nil
    }

    /// Splits a host with or without a port.
    private static func place(_ text: String) -> (host: String, port: Int?)? {
        var host = text[...]
        var port: Substring?
        if host.hasPrefix("[") {
            guard let end = host.firstIndex(of: "]") else { return nil }
            let rest = host[host.index(after: end)...]
            guard rest.isEmpty || rest.hasPrefix(":") else { return nil }
            port = rest.isEmpty ? nil : rest.dropFirst()
            host = host[host.index(after: host.startIndex)..<end]
        } else if host.count(where: { $0 == ":" }) == 1, let colon = host.firstIndex(of: ":") {
            port = host[host.index(after: colon)...]
            host = host[..<colon]
        }
        guard !host.isEmpty else { return nil }
        guard let port else { return (String(host), nil) }
        guard port.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(port), (1...65_535).contains(number)
        else { return nil }
        return (String(host), number)
    }

    /// The resource of the connection at this index, since each of several needs its own; nil lets the server choose.
    package func resource(ofSlot slot: Int, among count: Int) -> String? {
        guard count > 1 else { return resource }
        return resource.map { "\($0)-\(slot + 1)" }
    }
}

/// The limits that a server announces for a stream (XEP-0478).
package struct ServerLimits: Sendable, Equatable {
    /// The longest stanza that it accepts, in bytes; nil if it announces none.
    package var stanza: Int?
    /// The longest time without traffic; nil if it announces none that is usable.
    package var idle: Duration?

    package init() {}

    /// The limits in the features of an authenticated stream.
    init(features: Stanza) {
        // RFC 6120 section 13.12: no server may refuse less.
        stanza = ServerLimits.number("max-bytes", of: features).map { max($0, 10_000) }
        idle = ServerLimits.number("idle-seconds", of: features)
            .flatMap { (1...1 << 32).contains($0) ? .seconds($0) : nil }
    }

    private static func number(_ name: StaticString, of features: Stanza) -> Int? {
        guard let limits = features.child("limits", in: XMLNamespace.streamLimits),
            let element = features.child(name, in: XMLNamespace.streamLimits, of: limits)
        else { return nil }
        return features.bytes[features.elements[element].text].decimal(most: 18)
    }
}
