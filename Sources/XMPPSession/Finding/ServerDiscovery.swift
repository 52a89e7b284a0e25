package import DNS
package import TLSWire

/// How to find the server of a domain that nobody has named a host of (RFC 6120 section 3.2, XEP-0368).
///
/// The name servers are asked anew for every connection, and nothing is remembered from one to the next but the place where the
/// last one failed behind TCP, which comes last once: a server that has recovered, or moved, is found, and one that
/// accepts connections and can't serve them hides no other. What they say is not trusted: whatever host it leads to must have the domain's certificate.
package struct ServerDiscovery: Sendable {
    /// The two services under which a domain announces its server to clients.
    package enum Service: String, Sendable, CaseIterable {
        /// TLS from the first byte (XEP-0368).
        case direct = "_xmpps-client._tcp"
        /// STARTTLS (RFC 6120 section 3.2.1).
        case startTLS = "_xmpp-client._tcp"
    }

    /// What came of the question for a service.
    package enum Finding: Sendable, Equatable {
        /// The name servers' word.
        case answer(ServiceAnswer)
        /// They had none.
        case failed(DNSError)
    }

    /// The domain in ASCII.
    package var domain: String
    /// TLS from the first byte; nil where the configuration does not allow it.
    package var direct: TLSContext?
    /// TLS by STARTTLS; nil where the configuration does not allow it.
    package var startTLS: TLSContext?
    /// Where questions are asked.
    package var nameServers: NameServers
    /// Where the last connection got as far as TCP and no further: tried last.
    var avoided: ServerTarget?
    /// The most places that are tried for a connection.
    static let targetLimit = 16
    /// The port of a domain without service records.
    static let fallbackPort = 5222

    /// At least one of the two contexts is given.
    package init(
        domain: String,
        direct: TLSContext?,
        startTLS: TLSContext?,
        nameServers: NameServers = .system
    ) {
        self.domain = domain
        self.direct = direct
        self.startTLS = startTLS
        self.nameServers = nameServers
    }

    /// The services that are asked for.
    var services: [Service] {
        (direct == nil ? [] : [.direct]) + (startTLS == nil ? [] : [.startTLS])
    }

    /// The name under which a service is asked for.
    func name(of service: Service) -> String { "\(service.rawValue).\(domain)" }

    /// The places to try, in their order.
    ///
    /// - Parameters:
    ///   - findings: What came of the questions; of services that were asked for.
    ///   - generator: Draws among records of one priority.
    /// - Returns: At least one.
    /// - Throws: ``ServerNotFound`` where there is none.
    func targets(
        _ findings: [Service: Finding],
        using generator: inout some RandomNumberGenerator
    ) throws(ServerNotFound) -> [ServerTarget] {
        var entries: [(service: Service, record: ServiceRecord)] = []
        for service in services {
            guard case .answer(.records(let records))? = findings[service] else { continue }
            entries += records.map { (service, $0) }
        }
        // One order over both kinds (XEP-0368 section 5).
        let ordered = ServiceRecord.ordered(entries, by: \.record, using: &generator)
        let targets = ordered.prefix(Self.targetLimit).compactMap { entry in
            security(for: entry.service).map { security in
                ServerTarget(
                    host: entry.record.target,
                    port: Int(entry.record.port),
                    security: security,
                    origin: .service(name(of: entry.service))
                )
            }
        }
        guard targets.isEmpty else {
            return targets.filter { !isAvoided($0) } + targets.filter(isAvoided)
        }
        return [try fallback(findings)]
    }

    /// The domain itself, which stands in where it has no service records, or nobody could be asked for them.
    private func fallback(_ findings: [Service: Finding]) throws(ServerNotFound) -> ServerTarget {
        guard let startTLS else {
            switch findings[.direct] {
            case .answer(.declined)?: throw .declined(name(of: .direct))
            case .failed(let error)?: throw .unknown(name(of: .direct), error)
            case .answer?, nil: throw .noDirect(name(of: .direct))
            }
        }
        if findings[.startTLS] == .answer(.declined) { throw .declined(name(of: .startTLS)) }
        return ServerTarget(host: domain, port: Self.fallbackPort, security: .startTLS(startTLS), origin: .domain)
    }

    private func isAvoided(_ target: ServerTarget) -> Bool {
        guard let avoided else { return false }
        return target.host == avoided.host && target.port == avoided.port && target.isDirect == avoided.isDirect
    }

    private func security(for service: Service) -> SenderSettings.Security? {
        switch service {
        case .direct: direct.map { .direct($0) }
        case .startTLS: startTLS.map { .startTLS($0) }
        }
    }
}

/// Why there is no server to connect to.
package enum ServerNotFound: Error, Sendable, Equatable {
    /// The domain says that it does not offer the service with this name.
    case declined(String)
    /// Only TLS from the first byte is allowed, and the domain has no records of this name.
    case noDirect(String)
    /// Nobody could be asked for the only service that is allowed.
    case unknown(String, DNSError)
    /// All places were tried; each with what came of it.
    case unreachable([String])

    /// Cause and fix, for an operator.
    package var message: String {
        switch self {
        case .declined(let name):
            "the domain offers no XMPP to clients (the target of \(name) is \".\"): name the server by `host`"
        case .noDirect(let name):
            "the domain has no records of \(name), which `tls.mode: direct` asks for: leave `tls.mode` out, or name the "
                + "server by `host` and `port`"
        case .unknown(let name, let error): "\(name): \(error.message)"
        case .unreachable(let places): "cannot connect to " + places.joined(separator: ", nor to ")
        }
    }
}
