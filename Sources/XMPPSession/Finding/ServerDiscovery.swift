package import DNS
package import TLSWire

/// Finds the server of a domain without a configured host (RFC 6120 section 3.2, XEP-0368).
///
/// The name servers are asked anew for every connection, and the place where the last one failed after TCP connect is
/// tried last once: so a server that moved is found, and one that can't serve hides no other. Answers are not trusted:
/// any host must have the domain's certificate.
package struct ServerDiscovery: Sendable {
    /// The two services under which a domain announces its server to clients.
    package enum Service: String, Sendable, CaseIterable {
        /// TLS from the first byte (XEP-0368).
        case direct = "_xmpps-client._tcp"
        /// STARTTLS (RFC 6120 section 3.2.1).
        case startTLS = "_xmpp-client._tcp"
    }

    package typealias Finding = Result<ServiceAnswer, DNSError>

    package var domain: String
    /// TLS from the first byte; nil if the configuration does not allow it.
    package var direct: TLSContext?
    /// STARTTLS; nil if the configuration does not allow it.
    package var startTLS: TLSContext?
    package var nameServers: NameServers
    /// Where the last connection failed after TCP connect: tried last.
    var avoided: ServerTarget?
    static let targetLimit = 16
    static let fallbackPort = 5222

    /// At least one of the two contexts is given.
    package init(domain: String, direct: TLSContext?, startTLS: TLSContext?, nameServers: NameServers = .system) {
        self.domain = domain
        self.direct = direct
        self.startTLS = startTLS
        self.nameServers = nameServers
    }

    var services: [Service] {
        (direct == nil ? [] : [.direct]) + (startTLS == nil ? [] : [.startTLS])
    }

    func name(of service: Service) -> String { "\(service.rawValue).\(domain)" }

    /// The places to try, in order, at least one; records of one priority are drawn at random.
    func targets(
        _ findings: [Service: Finding],
        using generator: inout some RandomNumberGenerator
    ) throws(ServerNotFound) -> [ServerTarget] {
        var entries: [(service: Service, record: ServiceRecord)] = []
        for service in services {
            guard case .success(.records(let records))? = findings[service] else { continue }
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

    private func fallback(_ findings: [Service: Finding]) throws(ServerNotFound) -> ServerTarget {
        guard let startTLS else {
            switch findings[.direct] {
            case .success(.declined)?: throw .declined(name(of: .direct))
            case .failure(let error)?: throw .unknown(name(of: .direct), error)
            case .success?, nil: throw .noDirect(name(of: .direct))
            }
        }
        if findings[.startTLS] == .success(.declined) { throw .declined(name(of: .startTLS)) }
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

package enum ServerNotFound: Error, Sendable, Equatable {
    /// The domain declares that it does not offer the service with this name.
    case declined(String)
    /// Only TLS from the first byte is allowed, and the domain has no records of this name.
    case noDirect(String)
    /// The look-up of the only allowed service failed.
    case unknown(String, DNSError)
    /// All places were tried; each with its failure.
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
