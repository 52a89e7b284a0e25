package import NIOCore
package import TLSWire

package struct EmulatorConfiguration: Sendable {
    package enum Security: String, Sendable, CaseIterable {
        /// TLS from the first byte, as in the hosted service.
        case direct
        /// Plain text, then STARTTLS, which is required before sign-in.
        case startTLS = "starttls"
        case none
    }

    package enum Identity: Sendable {
        /// A certificate for these DNS names and addresses from an authority made for the run.
        case generated(names: [String], addresses: [String])
        /// PEM files: the certificate with its chain, and its key.
        case files(certificate: String, key: String)
        case server(TLSServerConfiguration)
    }

    package enum Credentials: Sendable {
        case any
        case secrets([String: String])
    }

    package var host = "127.0.0.1"
    /// The port; 0 for a free one.
    package var port = 0
    package var security = Security.direct
    package var identity = Identity.generated(names: ["localhost"], addresses: ["127.0.0.1", "::1"])
    /// Who may sign in, as a JID (`SENDER@anything`) or as the bare sender id.
    package var credentials = Credentials.any
    /// The domain part of the emulator's addresses.
    package var domain = "gcm.googleapis.com"
    /// The `from` of upstream stanzas; nil for none.
    package var stanzaFrom: String? = "devices@gcm.googleapis.com"
    package var window = 100
    /// Whether stream features have another prefix than `stream:` (docs/protocol.md, Setting up a stream).
    package var usesForeignFeaturePrefix = false
    package var offersSession = true
    /// How often to send a space on each bound connection; nil for never.
    package var whitespaceInterval: TimeAmount?
    package var load = LoadProfile()
    package var faults = FaultScript()
    /// A file for a transcript of both directions, one JSON object a line; nil for none.
    package var transcript: String?
    package var acks: String?
    /// Measures the ack latency of every n-th generated message; nil for none.
    package var latencySampling: Int?
    /// Whether to keep accepted acks for ``Emulator/takeAcks()``.
    package var recordsAcks = false
    /// How many messages a draining connection still gets while its sender has no other bound.
    package var drainMessages = 20
    package var drainTimeout = TimeAmount.seconds(5)
    /// Whether to close a draining connection; if not, only the peer ends it.
    package var closesDrained = true
    /// How long a peer may take to answer the end of the stream.
    package var closeTimeout = TimeAmount.seconds(2)

    package init() {}
}

extension EmulatorConfiguration {
    /// Makes the server's context, nil without TLS, and the authority that a client must trust, nil unless generated.
    func makeIdentity() throws -> (context: TLSContext?, authorityPEM: [UInt8]?) {
        if security == .none { return (nil, nil) }
        switch identity {
        case .server(let server): return (try TLSContext.server(server), nil)
        case .files(let certificate, let key):
            let identity = TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key))
            do {
                return (try TLSContext.server(TLSServerConfiguration(identity)), nil)
            } catch {
                throw EmulatorError(message: error.description)
            }
        case .generated(let names, let addresses):
            let authority = try CertificateAuthority()
            let certificate = try authority.issue(CertificateRequest(dnsNames: names, addresses: addresses))
            return (try TLSContext.server(TLSServerConfiguration(certificate)), authority.certificatePEM)
        }
    }
}
