import NIOCore
import NIOPosix
import TLSWire
import Telemetry
import XMLWire
import XMPP
import XMPPSession

extension ProbeSequence {
    /// The step about a sender: a stream that is opened, bound, and closed again without taking a message.
    package static func sender(_ configuration: WorkerConfiguration, index: Int) -> ProbeSequence {
        let sender = configuration.senders[index]
        return ProbeSequence(
            "sender \(sender.senderID)",
            [Probe(steps(of: sender)) { await bind(configuration, sender, index) }]
        )
    }

    private static func steps(of sender: SenderConfiguration) -> String {
        guard sender.dialect == .component else { return "TCP, TLS, SASL, bind" }
        return sender.tlsMode == .none ? "TCP, component handshake" : "TCP, TLS, component handshake"
    }

    private static func bind(
        _ configuration: WorkerConfiguration,
        _ sender: SenderConfiguration,
        _ index: Int
    ) async -> Probe.Result {
        let settings: SenderSettings
        do throws(TLSError) {
            settings = try SenderSettings(sender, index: index, limits: StreamLimits(configuration))
        } catch {
            return .failed(cause: error.message, fix: "check senders.\(index).tls", status: .configuration)
        }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let end = await StreamProbe.run(settings, on: group.next())
        try? await group.shutdownGracefully()
        return result(of: end, at: sender)
    }

    /// What a standard server without stream management means.
    private static let unmanaged =
        "\n        note: the server offers no stream management (XEP-0198): it forgets a message once it has written it to the "
        + "connection,\n        so what is in flight when this worker or the connection dies is lost"
        + "\n        fix: enable it on the server (Prosody: \"smacks\" in modules_enabled; ejabberd: mod_stream_mgmt)"

    /// What every server is to a component.
    private static let forgetful =
        "\n        note: a server stores nothing for a component: what it had written to a connection that died is gone, and while "
        + "no worker is\n        connected it returns messages to their senders; so devices have to send a message again until it is "
        + "acked"

    private static func result(of end: SessionEnd, at sender: SenderConfiguration) -> Probe.Result {
        // Binding is what the probe tests; how the stream ended afterwards does not matter.
        if end.negotiation == nil, case .session = end.ending {
            let detail = "bound at \(sender.host) port \(sender.port)"
            if sender.dialect == .component { return .passed(detail: detail + forgetful) }
            return .passed(detail: end.management == .missing ? detail + unmanaged : detail)
        }
        if sender.dialect == .component, end.negotiation?.condition == StreamErrorCondition.conflict.rawValue {
            return .failed(
                cause: end.message,
                fix:
                    "if a worker is running, that is its connection, and the secret is right; else see the server's log",
                status: .temporaryFailure
            )
        }
        let place = "\(sender.host) port \(sender.port)"
        switch end.reason {
        case .connectFailed:
            return .failed(
                cause: end.message,
                fix: "check that \(place) is right and reachable from here",
                status: .unavailable
            )
        case .tlsFailed:
            return .failed(
                cause: end.message,
                fix: "check tls.mode, tls.ca_file and tls.server_name of this sender",
                status: .protocolError
            )
        case .authenticationFailed:
            let keys = sender.dialect == .component ? "domain" : "sender_id, username, domain"
            return .failed(
                cause: end.message,
                fix: "check \(keys) and secret_file of this sender",
                status: .refused
            )
        default:
            return .failed(
                cause: end.message,
                fix: "check host, port and domain of this sender",
                status: .protocolError
            )
        }
    }
}
