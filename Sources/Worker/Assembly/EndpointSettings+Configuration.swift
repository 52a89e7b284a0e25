package import ConfigurationKeys
import TLSWire
package import UpstreamConfiguration
import XMLWire
import XMPP
package import XMPPEndpoint
import XMPPSession

extension EndpointSettings {
    /// The settings for an endpoint that is not in the configuration; that gives the stream's limits.
    ///
    /// The account's name is the part before the `@`, the domain the part after it; `serverName` is what the
    /// certificate must be for, `caFile` nil for the system's certificates. `isLocalpart` says whether SASL gets only
    /// the account's name, `allowsPlain` whether the secret itself may be sent (SASL PLAIN).
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` if the certificates or the name can't be used.
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
        allowsPlain: Bool,
        _ configuration: WorkerConfiguration
    ) throws(WorkerError) {
        let context: TLSContext
        do throws(TLSError) {
            context = try TLSContext.client(TLSClientConfiguration(serverName: serverName, caFile: caFile))
        } catch {
            throw .unusable(["the endpoint's TLS: \(error.message)"])
        }
        var stream = StreamSettings(senderID: account, domain: domain)
        if !isLocalpart { stream.username = stream.address }
        stream.allowsPlain = allowsPlain
        var sender = SenderSettings(
            stream,
            host: host,
            port: port,
            security: isStartTLS ? .startTLS(context) : .direct(context),
            secret: { try secret.firstLine() }
        )
        sender.limits = StreamLimits(configuration)
        self.init(sender)
    }
}
