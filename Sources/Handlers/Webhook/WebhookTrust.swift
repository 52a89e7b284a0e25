import NIOSSL

/// How webhooks speak TLS: everything verified, 1.2 at least, against the system's certificates or a file's.
struct WebhookTrust: Sendable {
    /// The HTTP client's settings.
    let configuration: TLSConfiguration

    /// The system's certificates.
    static let system = WebhookTrust()

    private init() {
        var configuration = TLSConfiguration.makeClientConfiguration()
        // The library's own default is 1.0.
        configuration.minimumTLSVersion = .tlsv12
        self.configuration = configuration
    }

    /// Reads the certificates of a PEM file.
    ///
    /// - Throws: ``WebhookTrustError`` where there is none in it, or it can't be read.
    init(caFile: String) throws(WebhookTrustError) {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(caFile)
        } catch {
            throw WebhookTrustError(description: "'\(caFile)' holds no certificates in PEM form: \(error)")
        }
        guard !certificates.isEmpty else {
            throw WebhookTrustError(description: "'\(caFile)' holds no certificate")
        }
        var configuration = Self.system.configuration
        configuration.trustRoots = .certificates(certificates)
        self.configuration = configuration
    }
}

/// Why a file of trusted certificates can't be used.
package struct WebhookTrustError: Error, Sendable, CustomStringConvertible {
    package let description: String
}
