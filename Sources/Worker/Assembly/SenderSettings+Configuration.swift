package import ConfigurationKeys
package import DNS
package import TLSWire
package import UpstreamConfiguration
import Vocabulary
package import XMLWire
package import XMPP
package import XMPPEndpoint
package import XMPPSession

extension SenderSettings {
    /// The settings of a configured sender.
    ///
    /// - Throws: `TLSError` if the file of trusted certificates or the server's name can't be used.
    package init(
        _ sender: SenderConfiguration,
        index: Int,
        limits: StreamLimits,
        nameServers: NameServers = .system
    ) throws(TLSError) {
        let secretFile = sender.secretFile
        let security = try SenderSettings.security(of: sender)
        self.init(
            StreamSettings(sender, index: index),
            host: sender.host,
            port: sender.port,
            security: security,
            secret: {
                // Only a client certificate replaces it.
                guard !secretFile.path.isEmpty else { return [] }
                return try secretFile.firstLine()
            }
        )
        connections = sender.connections
        catchesUp = sender.catchUp == .on
        fetchesOffline = sender.dialect == .xmpp
        self.limits = limits
        if sender.isFound {
            let allows = { (mode: TLSMode) in !sender.isTLSModeGiven || sender.tlsMode == mode }
            discovery = ServerDiscovery(
                domain: sender.domainInASCII,
                direct: allows(.direct) ? try Self.context(sender, isDirect: true) : nil,
                startTLS: allows(.starttls) ? try Self.context(sender, isDirect: false) : nil,
                nameServers: nameServers
            )
        }
        self.stream.certificateEnd =
            switch security {
            case .direct(let context), .startTLS(let context): context.certificateEnd
            case .clear: nil
            }
    }

    /// The settings of the sender at this place, by itself.
    init(_ configuration: WorkerConfiguration, index: Int) throws(TLSError) {
        try self.init(
            configuration.senders[index],
            index: index,
            limits: configuration.limits,
            nameServers: configuration.nameServers
        )
    }

    /// The TLS context for a sender's server.
    ///
    /// ALPN tells a standard server that an XMPP client follows (XEP-0368); the CCS never had that.
    private static func context(_ sender: SenderConfiguration, isDirect: Bool) throws(TLSError) -> TLSContext {
        var tls = TLSClientConfiguration(
            serverName: sender.serverName,
            caFile: sender.caFile,
            applicationProtocol: isDirect && sender.dialect == .xmpp ? "xmpp-client" : nil
        )
        // A configured server name means that server, not whoever serves the domain.
        let isDomains = sender.dialect == .xmpp && sender.serverName == sender.domainInASCII
        tls.xmppDomain = isDomains ? (ascii: sender.serverName, unicode: sender.domainInUnicode) : nil
        tls.identity = sender.clientCertificate.map {
            TLSIdentity(certificateChain: .file($0.file), privateKey: .file($0.keyFile.path))
        }
        return try TLSContext.client(tls)
    }

    private static func security(of sender: SenderConfiguration) throws(TLSError) -> Security {
        if sender.tlsMode == .none { return .clear(ClearNetworks(sender.clearNetworks.compactMap { Network($0) })) }
        let isDirect = sender.tlsMode == .direct
        let context = try context(sender, isDirect: isDirect)
        return isDirect ? .direct(context) : .startTLS(context)
    }
}

extension StreamSettings {
    /// The settings of the configured sender at an index.
    package init(_ sender: SenderConfiguration, index: Int) {
        self = sender.stream
        self.index = UInt16(index)
        if sender.username == .jid { username = address }
        domainSpellings = [sender.domain, sender.domainInASCII, sender.domainInUnicode]
        trustedFrom = sender.trustedSpellings
    }
}

extension SecretFile {
    /// The secret that the file holds alone.
    func firstLine() throws -> [UInt8] {
        guard let line = try lines().first else { throw WorkerError.failed("the file is empty") }
        return line
    }
}

extension EndpointSettings {
    /// The settings for an endpoint that is not in the configuration.
    ///
    /// `serverName` is what the certificate must be for, `caFile` nil for the system's certificates.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` if the certificates or the name can't be used.
    package init(
        _ stream: StreamSettings,
        host: String,
        port: Int,
        secret: SecretFile,
        caFile: String?,
        serverName: String,
        isStartTLS: Bool,
        limits: StreamLimits
    ) throws(WorkerError) {
        let context: TLSContext
        do throws(TLSError) {
            context = try TLSContext.client(TLSClientConfiguration(serverName: serverName, caFile: caFile))
        } catch {
            throw .unusable(["the endpoint's TLS: \(error.message)"])
        }
        var sender = SenderSettings(
            stream,
            host: host,
            port: port,
            security: isStartTLS ? .startTLS(context) : .direct(context),
            secret: { try secret.firstLine() }
        )
        sender.limits = limits
        self.init(sender)
    }
}
