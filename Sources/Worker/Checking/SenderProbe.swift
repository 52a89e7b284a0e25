import MessageStore
import NIOCore
import NIOPosix
import Postgres
package import Probing
import TLSWire
import Telemetry
package import UpstreamConfiguration
import Vocabulary
package import XMPP
import XMPPSession

extension ProbeSequence {
    /// The step about a sender: opens a stream, binds it, and closes it without taking a message.
    package static func sender(_ configuration: WorkerConfiguration, index: Int) -> ProbeSequence {
        let sender = configuration.senders[index]
        return ProbeSequence(
            "sender \(sender.senderID)",
            [Probe(steps(of: sender), isNeeded: true) { await bind(configuration, sender, index) }]
        )
    }

    private static func steps(of sender: SenderConfiguration) -> String {
        guard sender.dialect == .component else { return "TCP, TLS, SASL, bind" }
        return sender.tlsMode == .none ? "TCP, component handshake" : "TCP, TLS, component handshake"
    }

    /// The limits that a sender's server announces (XEP-0478), asked over a stream as the step's; nil if it can't be bound.
    package static func limits(_ configuration: WorkerConfiguration, index: Int) async -> ServerLimits? {
        // A component's stream has no features to announce them in.
        guard configuration.senders[index].dialect != .component else { return ServerLimits() }
        guard let settings = try? SenderSettings(configuration, index: index) else { return nil }
        return await probe(settings, configuration, index).report.stream?.limits
    }

    private static func probe(
        _ given: SenderSettings,
        _ configuration: WorkerConfiguration,
        _ index: Int
    ) async -> (report: ProbeReport, pin: PinnedBinding?) {
        let (sender, group) = (configuration.senders[index], MultiThreadedEventLoopGroup(numberOfThreads: 1))
        var settings = given
        // A check is for a worker whose database is not there yet, too.
        let pin = sender.dialect == .xmpp ? try? await pin(of: settings, configuration.database.url) : nil
        settings.stream.isBindingPinned = pin != nil && sender.stream.channelBinding == .preferred
        let report = await StreamProbe.run(settings, on: group.next())
        try? await group.shutdownGracefully()
        return (report, pin)
    }

    private static func bind(
        _ configuration: WorkerConfiguration,
        _ sender: SenderConfiguration,
        _ index: Int
    ) async -> Probe.Result {
        let settings: SenderSettings
        do throws(TLSError) {
            settings = try SenderSettings(configuration, index: index)
        } catch {
            return .failed(cause: error.message, fix: "check senders.\(index).tls", status: .configuration)
        }
        let (report, pin) = await probe(settings, configuration, index)
        let found = result(of: report, at: sender, pin)
        let ends = [
            ("the server's certificate", report.certificateEnd, "whoever runs the server has to renew it"),
            (
                "the client certificate", settings.stream.certificateEnd,
                "renew tls.client_certificate_file of this sender, then restart its workers"
            ),
        ]
        for (what, end, fix) in ends {
            guard case .passed(let detail) = found, let end, end < CertificateProbe.warning else { continue }
            return .warned(cause: "\(what) \(Amount.ending(end)); \(detail)", fix: fix)
        }
        return found
    }

    /// The sender's pin; nil without one.
    static func pin(of settings: SenderSettings, _ url: String) async throws -> PinnedBinding? {
        let connection = try await PostgresConnection.open(try PostgresSettings(url: url))
        let pins: [PinnedBinding]
        do {
            pins = try await connection.run { connection throws(PostgresError) in try BindingPins.list(connection) }
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
        return pins.first { $0.senderID == settings.stream.senderID && $0.domain == settings.stream.domain }
    }

    private static let unmanaged =
        "\n        note: the server offers no stream management (XEP-0198): it forgets a message once it has written it to the "
        + "connection,\n        so what is in flight when this worker or the connection dies is lost"
        + "\n        fix: enable it on the server (Prosody: \"smacks\" in modules_enabled; ejabberd: mod_stream_mgmt)"

    private static let forgetful =
        "\n        note: a server stores nothing for a component: what it had written to a connection that died is gone, and while "
        + "no worker is\n        connected it returns messages to their senders; so devices have to send a message again until it is "
        + "acked"

    private static func result(
        of report: ProbeReport,
        at sender: SenderConfiguration,
        _ pin: PinnedBinding?
    ) -> Probe.Result {
        let end = report.end
        // The probe tests binding; how the stream ended afterwards does not matter.
        if end.negotiation == nil, case .session = end.ending {
            let pinned =
                pin.map { "\n        pinned: by \($0.binding) at \($0.pinnedAt.rfc3339), so none without is accepted" }
                ?? ""
            let detail = "bound at \(end.server?.summary ?? sender.host)" + report.findings + pinned
            if sender.dialect == .component {
                let clear =
                    sender.tlsMode == .none
                    ? "\n        TLS: none; the secret's digest and all messages go in the clear" : ""
                return .passed(detail: detail + clear + forgetful)
            }
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
        let place =
            sender.isFound
            ? "the server that the service records of \(sender.host) name" : "\(sender.host) port \(sender.port)"
        let keys = sender.dialect == .component ? "domain" : "sender_id, username, domain"
        let (fix, status): (String, ExitStatus) =
            switch end.reason {
            case .connectFailed: ("check that \(place) is right and reachable from here", .unavailable)
            case .tlsFailed: ("check tls.mode, tls.ca_file and tls.server_name of this sender", .protocolError)
            case .authenticationFailed: ("check \(keys) and secret_file of this sender", .refused)
            default: ("check host, port and domain of this sender", .protocolError)
            }
        return .failed(cause: end.message, fix: fix, status: status)
    }
}

extension ProbeReport {
    /// How the connection was secured and authenticated, and what the server offered: lines after the verdict.
    var findings: String {
        var lines: [String] = []
        if let tlsVersion {
            let end = certificateEnd.map { ", the server's certificate \(Amount.ending($0))" } ?? ""
            lines.append("TLS: \(tlsVersion)\(end)")
        }
        if let signIn {
            let bound = signIn.choice.binding.map { ", bound to the TLS connection by \($0.rawValue)" } ?? ""
            lines.append("signed in: \(signIn.choice.name)\(bound)")
            lines.append("offered mechanisms: \(signIn.offeredMechanisms)")
            let types = signIn.offeredBindings.map { $0.isEmpty ? "none known here" : $0.joined(separator: ", ") }
            lines.append("offered channel bindings: \(types ?? "no list (XEP-0440)")")
        }
        if let stream {
            let management =
                switch stream.management {
                case .unused: "not used with a CCS or a component"
                case .missing: "no"
                case .offered: "yes"
                }
            lines.append("stream management: \(management)")
            let limit = stream.limits.stanza.map { "\($0) bytes" } ?? "not announced (XEP-0478)"
            lines.append("longest stanza it takes: \(limit)")
        }
        if let signIn, signIn.isBindingUnnamed {
            lines.append(
                "note: the server offers channel binding without saying by which types (XEP-0440), and TLS 1.3 does not have "
                    + "the usual one: signed in without it"
            )
        }
        return lines.map { "\n        \($0)" }.joined()
    }
}
