import TLSWire
import Testing

@testable import DNS
@testable import XMPPSession

/// Which places are tried, and in which order.
@Suite("Places that the service records of a domain name")
struct ServerDiscoveryTests {
    private typealias Finding = ServerDiscovery.Finding

    private func discovery(direct: Bool = true, startTLS: Bool = true) throws -> ServerDiscovery {
        var client = TLSClientConfiguration(serverName: "example.org")
        client.trust = .pem(try CertificateAuthority().certificatePEM)
        let context = try TLSContext.client(client)
        return ServerDiscovery(
            domain: "example.org",
            direct: direct ? context : nil,
            startTLS: startTLS ? context : nil
        )
    }

    private func record(_ priority: UInt16, _ target: String, port: UInt16 = 1, weight: UInt16 = 0) -> ServiceRecord {
        ServiceRecord(priority: priority, weight: weight, port: port, target: target)
    }

    /// The places in a few words, or the error.
    private func places(
        _ discovery: ServerDiscovery,
        _ direct: Finding?,
        _ startTLS: Finding?
    ) -> [String] {
        var findings: [ServerDiscovery.Service: Finding] = [:]
        findings[.direct] = direct
        findings[.startTLS] = startTLS
        var generator = SystemRandomNumberGenerator()
        do throws(ServerNotFound) {
            return try discovery.targets(findings, using: &generator).map { target in
                "\(target.host):\(target.port) \(target.isDirect ? "direct" : "starttls") \(target.origin)"
            }
        } catch {
            return ["\(error)"]
        }
    }

    @Test("both kinds are one list by priority, each with its own way to begin TLS")
    func merged() throws {
        let found = places(
            try discovery(),
            .success(.records([record(10, "a", port: 5223), record(30, "c", port: 443)])),
            .success(.records([record(20, "b", port: 5222), record(5, "z", port: 5269)]))
        )
        #expect(
            found == [
                #"z:5269 starttls service("_xmpp-client._tcp.example.org")"#,
                #"a:5223 direct service("_xmpps-client._tcp.example.org")"#,
                #"b:5222 starttls service("_xmpp-client._tcp.example.org")"#,
                #"c:443 direct service("_xmpps-client._tcp.example.org")"#,
            ]
        )
    }

    @Test("tls.mode leaves out what it does not allow")
    func restricted() throws {
        let (a, b) = (Finding.success(.records([record(1, "a")])), Finding.success(.records([record(2, "b")])))
        #expect(places(try discovery(startTLS: false), a, b).map { $0.prefix(1) } == ["a"])
        #expect(places(try discovery(direct: false), a, b).map { $0.prefix(1) } == ["b"])
        #expect(try discovery(startTLS: false).services == [.direct])
        #expect(try discovery(direct: false).services == [.startTLS])
        #expect(try discovery().services == [.direct, .startTLS])
    }

    @Test("without records the domain itself is the host, with STARTTLS on port 5222 and never without")
    func fallback() throws {
        let domain = ["example.org:5222 starttls domain"]
        #expect(places(try discovery(), .success(.none), .success(.none)) == domain)
        // What nobody could be asked about may be the case (RFC 6120 section 3.2.1, step 9).
        #expect(places(try discovery(), .failure(.noAnswer), .failure(.refused(code: 2))) == domain)
        #expect(places(try discovery(), .success(.declined), .success(.none)) == domain)
        #expect(places(try discovery(direct: false), nil, .success(.none)) == domain)
        let a = Finding.success(.records([record(1, "a")]))
        #expect(places(try discovery(), a, .failure(.noAnswer)).map { $0.prefix(2) } == ["a:"])
        #expect(places(try discovery(), a, .success(.declined)).map { $0.prefix(2) } == ["a:"])
    }

    @Test("a service that is declined is none, and nothing else is tried in its place")
    func declined() throws {
        #expect(
            places(try discovery(), .success(.none), .success(.declined))
                == [#"declined("_xmpp-client._tcp.example.org")"#]
        )
        #expect(places(try discovery(), .success(.declined), .success(.declined)).first?.hasPrefix("declined") == true)
        let direct = try discovery(startTLS: false)
        #expect(places(direct, .success(.declined), nil) == [#"declined("_xmpps-client._tcp.example.org")"#])
        #expect(places(direct, .success(.none), nil) == [#"noDirect("_xmpps-client._tcp.example.org")"#])
        #expect(places(direct, .failure(.noAnswer), nil).first?.hasPrefix("unknown") == true)
    }

    @Test("the place where the last connection failed behind TCP comes last, and is not left out")
    func avoided() throws {
        var discovery = try discovery()
        let context = try #require(discovery.startTLS)
        let records = Finding.success(.records([record(1, "a"), record(2, "b"), record(3, "c")]))
        discovery.avoided = ServerTarget(host: "a", port: 1, security: .startTLS(context), origin: .configured)
        #expect(places(discovery, nil, records).map { $0.prefix(1) } == ["b", "c", "a"])
        #expect(places(discovery, nil, .success(.records([record(1, "a")]))).map { $0.prefix(1) } == ["a"])
        // Another kind of TLS there is another place.
        #expect(places(discovery, records, nil).map { $0.prefix(1) } == ["a", "b", "c"])
    }

    @Test("an answer with very many records is tried in part")
    func bounded() throws {
        let many = Finding.success(.records((0..<64).map { record(UInt16($0), "h\($0)") }))
        let found = places(try discovery(), many, many)
        #expect(found.count == ServerDiscovery.targetLimit)
        #expect(found.last?.hasPrefix("h7:") == true)
    }

    @Test("whom a server sends us to is connected to, and not looked for; TLS begins as it did")
    func redirected() async throws {
        var settings = try await Bench.settings()
        settings.discovery = try discovery()
        let context = try #require(settings.discovery?.startTLS)
        let target = ServerTarget(host: "a.test", port: 5229, security: .startTLS(context), origin: .domain)
        let server = ReachedServer(target: target, address: nil)
        let other = settings.redirected(("b.test", nil), by: server)
        #expect(other.discovery == nil && other.host == "b.test" && other.port == 5229)
        if case .startTLS = other.security {} else { Issue.record("another kind of TLS") }
        #expect(settings.redirected(("b.test", 1), by: server).port == 1)
        #expect(settings.redirected(nil, by: server).discovery != nil)
    }
}
