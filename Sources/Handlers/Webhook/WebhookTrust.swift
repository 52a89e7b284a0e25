import NIOSSL

/// The certificates that a webhook's endpoint is verified against, instead of the system's.
struct WebhookTrust: Sendable {
    /// How the HTTP client speaks TLS: everything verified, 1.2 at least.
    let configuration: TLSConfiguration

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
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.trustRoots = .certificates(certificates)
        self.configuration = configuration
    }
}

/// Why a file of trusted certificates can't be used.
package struct WebhookTrustError: Error, Sendable, CustomStringConvertible {
    package let description: String
}
