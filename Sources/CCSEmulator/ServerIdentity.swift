import TLSWire

struct ServerIdentity {
    /// Nil for an emulator without TLS.
    var context: TLSContext?
    /// The authority that a client must trust; nil unless generated.
    var authorityPEM: [UInt8]?

    init(_ configuration: EmulatorConfiguration) throws {
        if configuration.security == .none { return }
        switch configuration.identity {
        case .server(let server): context = try TLSContext.server(server)
        case .files(let certificate, let key):
            let identity = TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key))
            do {
                context = try TLSContext.server(TLSServerConfiguration(identity))
            } catch {
                throw EmulatorError(message: error.description)
            }
        case .generated(let names, let addresses):
            let authority = try CertificateAuthority()
            let certificate = try authority.issue(CertificateRequest(dnsNames: names, addresses: addresses))
            context = try TLSContext.server(TLSServerConfiguration(certificate))
            authorityPEM = authority.certificatePEM
        }
    }
}
