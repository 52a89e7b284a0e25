import ConfigurationKeys
import NIOCore
import Probing
import TLSWire
import Telemetry
import Vocabulary

extension WebhookKind {
    func probes(_ session: any HandlerProbeSession) -> [Probe] {
        guard let endpoint = WebhookEndpoint(url) else { return [] }
        var steps = [Probe("webhook", isNeeded: true) { await host(of: endpoint) }]
        if endpoint.tlsPort != nil { steps.append(Probe("certificate") { await serverCertificate() }) }
        if let certificateFile {
            let fix = "renew webhook.certificate_file: it is read again by itself"
            steps.append(Probe("client certificate") { CertificateProbe.check(file: certificateFile, fix: fix) })
        }
        return steps
    }

    func certificates(_ note: (CertificateKind, Int) -> Void) async {
        if let certificateFile, let end = try? CertificateEnd.remaining(.file(certificateFile)) {
            note(.webhookClient, end)
        }
        if let end = try? await remaining() { note(.webhook, end) }
    }

    private func host(of endpoint: WebhookEndpoint) async -> Probe.Result {
        switch await WebhookProbe.run(endpoint, policy: policy) {
        case .allowed(let addresses):
            let list = addresses.map(\.description).joined(separator: ", ")
            return .passed(detail: "its host is at \(list), where requests may go; none was sent")
        case .unresolved(let host, let reason):
            return .failed(
                cause: "\(host) does not resolve: \(reason)",
                fix: "correct webhook.url, or the name server of this machine (/etc/resolv.conf)",
                status: .unavailable
            )
        case .refused(let host, let address):
            return .failed(
                cause: "\(host) is at \(address), which is not a public address",
                fix: "if that is intended, add its network to webhook.allow_networks",
                status: .configuration
            )
        case .refusedPlain(let host, let address):
            return .failed(
                cause: "\(host) is at \(address), outside webhook.allow_networks, where only https is allowed",
                fix: "use https, or add its network to webhook.allow_networks",
                status: .configuration
            )
        }
    }

    /// The seconds until the certificate of the endpoint expires; connects without sending anything.
    private func remaining() async throws(CertificateProbe.Failure) -> Int {
        guard let endpoint = WebhookEndpoint(url), let port = endpoint.tlsPort else {
            throw .unreachable("no https endpoint")
        }
        guard case .allowed(let addresses) = await WebhookProbe.run(endpoint, policy: policy),
            let address = addresses.first
        else { throw .unreachable("its host has no address that requests may go to") }
        var tls = TLSClientConfiguration(serverName: endpoint.host, caFile: caFile, handshakeTimeout: .seconds(5))
        if let certificateFile, let keyFile {
            tls.identity = TLSIdentity(certificateChain: .file(certificateFile), privateKey: .file(keyFile.path))
        }
        return try await CertificateProbe.remaining(at: address, port, tls)
    }

    /// Reports on the certificate of the endpoint.
    private func serverCertificate() async -> Probe.Result {
        do throws(CertificateProbe.Failure) {
            let end = try await remaining()
            let fix = "whoever runs the endpoint has to renew it"
            return CertificateProbe.judge(end, "the endpoint's certificate", fix: fix)
        } catch {
            switch error {
            case .unreachable(let reason):
                return .warned(
                    cause: "no connection to the endpoint, whose certificate could not be seen: \(reason)",
                    fix: "see that it runs and can be reached from here; its messages wait meanwhile"
                )
            case .refused(let reason):
                return .failed(
                    cause: reason,
                    fix: "renew the endpoint's certificate, or name its authority in webhook.ca_file",
                    status: .protocolError
                )
            }
        }
    }
}
