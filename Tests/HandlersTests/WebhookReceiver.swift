import IntegrationSupport

/// The endpoint of `Tests/Tools/webhook_receiver.py`, running on the loopback address.
final class WebhookReceiver: Sendable {
    /// Signs in all tests; made for them.
    static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    /// Where it listens.
    var port: Int { server.port }
    private let server: ToolServer

    /// Starts it.
    ///
    /// - Parameters:
    ///   - certificate: Files with the certificate's chain and key; without them the endpoint is plain.
    ///   - clientAuthority: A file with the authority whose certificates are demanded of clients.
    /// - Throws: `TestTools.Unavailable`
    init(certificate: (chain: String, key: String)? = nil, clientAuthority: String? = nil) throws {
        server = try ToolServer(
            "webhook_receiver.py",
            [Self.secret] + (certificate.map { [$0.chain, $0.key] } ?? []) + (clientAuthority.map { [$0] } ?? [])
        )
    }
}
