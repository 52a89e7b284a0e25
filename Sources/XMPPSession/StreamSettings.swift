/// How a sender's streams present themselves to a standard server, and where they may be redirected.
package struct StreamSettings: Sendable, Equatable {
    /// The resource to bind; nil leaves the choice to the server.
    package var resource: String?
    /// The priority of our presence (RFC 6121 section 4.7.2.3).
    package var priority: Int8
    /// How long the server is asked to hold the session of a lost connection (XEP-0198 section 5); zero for not at all.
    package var resume: Duration
    /// The hosts that `see-other-host` may name, each with or without its port.
    package var redirectHosts: [String]
    /// The worker's version, told to permitted peers (XEP-0092).
    package var version = ""

    /// By default the server chooses the resource, and no redirection is followed.
    package init(
        resource: String? = nil,
        priority: Int8 = 0,
        resume: Duration = .zero,
        redirectHosts: [String] = []
    ) {
        self.resource = resource
        self.priority = priority
        self.resume = resume
        self.redirectHosts = redirectHosts
    }

    /// The host, and the port if given, that a server redirects to, if the operator has listed it; else nil.
    ///
    /// `other` comes from `see-other-host`, or from stream management's `location`: `name`, `name:port`, `[address]` or
    /// `[address]:port`. A host listed with a port matches that port only.
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
