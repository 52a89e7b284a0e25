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
        var sender = SenderSettings(
            index: 0,
            senderID: account,
            host: host,
            port: port,
            domain: domain,
            connections: 1,
            security: isStartTLS ? .startTLS(context) : .direct(context),
            dialect: .ccs,
            username: isLocalpart ? account : "\(account)@\(domain)",
            window: 100,
            idScope: .sender,
            trustedFrom: [],
            keepaliveInterval: .seconds(30),
            keepaliveTimeout: .seconds(15),
            limits: StreamLimits(configuration),
            secret: { try secret.firstLine() }
        )
        sender.allowsPlain = allowsPlain
        self.init(sender)
    }
}
