import TLSWire

/// The certificate an emulator shows, made or loaded.
struct ServerIdentity {
    /// What connections are made from; nil for an emulator without TLS.
    var context: TLSContext?
    /// The authority a client must trust; nil where none was made.
    var authorityPEM: [UInt8]?

    init(_ configuration: EmulatorConfiguration) throws {
        if configuration.security == .none { return }
        switch configuration.identity {
        case .server(let server):
            context = try TLSContext.server(server)
        case .files(let certificate, let key):
            do {
                context = try TLSContext.server(
                    TLSServerConfiguration(certificateChain: .file(certificate), privateKey: .file(key))
                )
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
