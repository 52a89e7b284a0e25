package import ConfigurationKeys
import TLSWire
package import UpstreamConfiguration
import XMLWire
import XMPP
package import XMPPEndpoint
import XMPPSession

extension EndpointSettings {
    package struct Options: Sendable {
        package var host: String
        package var port: Int
        /// The account's name: the part before the `@`.
        package var account: String
        package var domain: String
        package var secret: SecretFile
        /// The certificates to trust, PEM; nil for the system's.
        package var caFile: String?
        /// The name that the certificate must be for.
        package var serverName: String
        /// Whether TLS begins within the stream.
        package var isStartTLS: Bool
        /// Whether SASL gets only the account's name.
        package var isLocalpart: Bool
        /// Whether the secret itself may be sent (SASL PLAIN).
        package var allowsPlain: Bool

        package init(
            host: String,
            port: Int,
            account: String,
            domain: String,
            secret: SecretFile,
            caFile: String?,
            serverName: String,
            isStartTLS: Bool,
            isLocalpart: Bool,
            allowsPlain: Bool
        ) {
            self.host = host
            self.port = port
            self.account = account
            self.domain = domain
            self.secret = secret
            self.caFile = caFile
            self.serverName = serverName
            self.isStartTLS = isStartTLS
            self.isLocalpart = isLocalpart
            self.allowsPlain = allowsPlain
        }
    }

    /// The settings for such an endpoint.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` if the certificates or the name can't be used.
    package static func make(
        _ options: Options,
        _ configuration: WorkerConfiguration
    ) throws(WorkerError) -> EndpointSettings {
        let context: TLSContext
        do throws(TLSError) {
            context = try TLSContext.client(
                TLSClientConfiguration(serverName: options.serverName, caFile: options.caFile)
            )
        } catch {
            throw .unusable(["the endpoint's TLS: \(error.message)"])
        }
        let secret = options.secret
        var stream = StreamSettings(senderID: options.account, domain: options.domain)
        if !options.isLocalpart { stream.username = stream.address }
        stream.allowsPlain = options.allowsPlain
        var sender = SenderSettings(
            stream,
            host: options.host,
            port: options.port,
            security: options.isStartTLS ? .startTLS(context) : .direct(context),
            secret: {
                guard let line = try secret.lines().first else { throw WorkerError.failed("the file is empty") }
                return line
            }
        )
        sender.limits = StreamLimits(configuration)
        return EndpointSettings(sender)
    }
}
