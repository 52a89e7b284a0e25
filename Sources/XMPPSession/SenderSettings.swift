package import DNS
package import NIOCore
import Synchronization
package import TLSWire
package import Vocabulary
package import XMLWire
package import XMPP

/// The settings of a sender's connections, made once at the worker's start.
package struct SenderSettings: Sendable {
    package enum Security: Sendable {
        /// TLS from the first byte.
        case direct(TLSContext)
        /// `<starttls/>` inside the stream; if the server doesn't offer it, there is no connection.
        case startTLS(TLSContext)
        /// None, and only if the connected address is in one of these networks.
        case clear(ClearNetworks)

        /// Its value of `tls.mode`.
        var mode: TLSMode {
            switch self {
            case .direct: .direct
            case .startTLS: .starttls
            case .clear: .none
            }
        }
    }

    /// Connects to a host and port: a channel of decrypted bytes that reports ``TLSEvent/established(version:cipher:)``
    /// itself, once its handlers are there.
    package typealias Transport =
        @Sendable (_ host: String, _ port: Int, any EventLoop) -> EventLoopFuture<any Channel>

    package var stream: StreamSettings
    /// The host to connect to; the domain if ``discovery`` finds the hosts.
    package var host: String
    /// The TCP port to connect to; unused with ``discovery``.
    package var port: Int
    package var connections = 1
    /// TLS with its trust and host name; with ``discovery`` each place has its own.
    package var security: Security
    /// How to find the server; nil if ``host`` and ``port`` are given.
    package var discovery: ServerDiscovery?
    package var limits = StreamLimits()
    package var connectTimeout = TimeAmount.seconds(10)
    /// The time limit from there to the bound stream.
    package var negotiationTimeout = TimeAmount.seconds(30)
    /// The time after which no further place of a server is tried.
    var findingTimeout: TimeAmount { connectTimeout * 3 }
    /// The time limit from the start to the bound stream.
    var openingTimeout: TimeAmount {
        guard discovery != nil else { return connectTimeout + negotiationTimeout }
        return TimeAmount(ServiceLookup.timeout) + findingTimeout + connectTimeout + negotiationTimeout
    }
    /// Reads the secret each time it is needed, so that a rotated file takes effect at the next connection.
    package var secret: @Sendable () throws -> [UInt8]
    /// Looks up the host.
    package var resolver = AddressResolver.system
    package var keys = KeyDeriver()
    /// Remembers channel binding; nil where nothing is to be remembered.
    package var pin: BindingPin?
    /// Whether what is missing is fetched from the server's archive.
    package var catchesUp = false
    /// Whether what a standard server has stored offline is fetched before our presence.
    package var fetchesOffline = false
    /// Has the archive read after a bind.
    var archiveTicks: ArchiveTicks?
    /// Opens the transport; nil for TCP, and TLS as ``security`` says.
    package var transport: Transport?
    /// Whether the operator has been warned that the server has no stream management.
    let managementWarning = OnceFlag()

    package init(
        _ stream: StreamSettings,
        host: String,
        port: Int,
        security: Security,
        secret: @escaping @Sendable () throws -> [UInt8]
    ) {
        self.stream = stream
        self.host = host
        self.port = port
        self.security = security
        self.secret = secret
    }
}

extension SenderSettings {
    /// These settings with another host, if given, that `server` named; TLS and the certificate's required name stay.
    func redirected(_ place: (host: String, port: Int?)?, by server: ReachedServer? = nil) -> SenderSettings {
        guard let place else { return self }
        var settings = self
        settings.host = place.host
        settings.port = place.port ?? server?.target.port ?? port
        settings.security = server?.target.security ?? security
        settings.discovery = nil
        return settings
    }
}

/// Settings of some hundred bytes, shared by the parts of a connection, and by connections that bind the same resource.
package final class SharedSettings: Sendable {
    package let value: SenderSettings

    package init(_ value: SenderSettings) { self.value = value }
}

final class OnceFlag: Sendable {
    private let isUsed = Atomic(false)

    /// True for exactly one caller.
    func isFirst() -> Bool { !isUsed.exchange(true, ordering: .relaxed) }
}
