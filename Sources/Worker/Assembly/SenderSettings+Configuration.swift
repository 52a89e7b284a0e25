import ConfigurationKeys
package import DNS
package import TLSWire
package import UpstreamConfiguration
import Vocabulary
package import XMLWire
import XMPP
package import XMPPSession

extension SenderSettings {
    /// The settings of the configured sender at this index.
    ///
    /// - Throws: `TLSError` if the file of trusted certificates or the server's name can't be used.
    init(_ configuration: WorkerConfiguration, index: Int) throws(TLSError) {
        try self.init(
            configuration.senders[index],
            index: index,
            limits: StreamLimits(configuration),
            nameServers: configuration.nameServers
        )
    }

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
        self.init(
            index: index,
            senderID: sender.senderID,
            host: sender.host,
            port: sender.port,
            domain: sender.domain,
            connections: sender.connections,
            security: try SenderSettings.security(of: sender),
            dialect: SenderSettings.dialect(of: sender),
            username: sender.username == .jid ? "\(sender.senderID)@\(sender.domain)" : sender.senderID,
            window: sender.window,
            idScope: sender.idScope == .sender ? .sender : .device,
            trustedFrom: sender.trustedSpellings,
            keepaliveInterval: sender.keepaliveInterval,
            keepaliveTimeout: sender.keepaliveTimeout,
            limits: limits,
            secret: {
                // Only a client certificate replaces it.
                guard !secretFile.path.isEmpty else { return [] }
                return try secretFile.firstLine()
            }
        )
        stream = StreamSettings(
            resource: sender.stream.resource,
            priority: Int8(clamping: sender.stream.priority),
            resume: sender.stream.resume,
            redirectHosts: sender.stream.redirectHosts
        )
        allowsPlain = sender.allowPlain
        domainSpellings = [sender.domain, sender.domainInASCII, sender.domainInUnicode]
        payload = sender.payload
        if sender.isFound {
            let allows = { (mode: SenderConfiguration.TLSMode) in !sender.isTLSModeGiven || sender.tlsMode == mode }
            discovery = ServerDiscovery(
                domain: sender.domainInASCII,
                direct: allows(.direct) ? try Self.context(sender, isDirect: true) : nil,
                startTLS: allows(.starttls) ? try Self.context(sender, isDirect: false) : nil,
                nameServers: nameServers
            )
        }
        certificateEnd =
            switch security {
            case .direct(let context), .startTLS(let context): context.certificateEnd
            case .clear: nil
            }
    }

    /// The TLS context for a sender's server.
    ///
    /// ALPN tells a standard server that an XMPP client follows (XEP-0368); the CCS never had that.
    private static func context(
        _ sender: SenderConfiguration,
        isDirect: Bool
    ) throws(TLSError) -> TLSContext {
        var tls = TLSClientConfiguration(
            serverName: sender.serverName,
            caFile: sender.caFile,
            applicationProtocol: isDirect && sender.dialect == .xmpp ? "xmpp-client" : nil
        )
        // A configured server name means that server, not whoever serves the domain.
        let isDomains = sender.dialect == .xmpp && sender.serverName == sender.domainInASCII
        tls.xmppDomain = isDomains ? XMPPDomain(ascii: sender.serverName, unicode: sender.domainInUnicode) : nil
        tls.identity = sender.clientCertificate.map {
            TLSClientIdentity(certificateChain: .file($0.file), privateKey: .file($0.keyFile.path))
        }
        return try TLSContext.client(tls)
    }

    private static func security(of sender: SenderConfiguration) throws(TLSError) -> Security {
        if sender.tlsMode == .none { return .clear(ClearNetworks(sender.clearNetworks.compactMap { Network($0) })) }
        let isDirect = sender.tlsMode == .direct
        let context = try context(sender, isDirect: isDirect)
        return isDirect ? .direct(context) : .startTLS(context)
    }

    private static func dialect(of sender: SenderConfiguration) -> Dialect {
        switch sender.dialect {
        case .ccs: .ccs
        case .xmpp: .xmpp
        case .component: .component
        }
    }
}

extension SecretFile {
    /// The secret that the file holds alone.
    func firstLine() throws -> [UInt8] {
        guard let line = try lines().first else { throw WorkerError.failed("the file is empty") }
        return line
    }
}

extension StreamLimits {
    package init(_ configuration: WorkerConfiguration) {
        self.init()
        stanzaBytes = configuration.stanzaLimit
        depth = configuration.depthLimit
    }
}
