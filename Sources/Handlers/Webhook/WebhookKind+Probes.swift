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
        do throws(WebhookRefusal) {
            let list = try await policy.addresses(of: endpoint).map(\.description).joined(separator: ", ")
            return .passed(detail: "its host is at \(list), where requests may go; none was sent")
        } catch {
            return .failed(cause: error.cause, fix: error.fix, status: error.status)
        }
    }

    /// The seconds until the certificate of the endpoint expires; connects without sending anything.
    private func remaining() async throws(CertificateProbe.Failure) -> Int {
        guard let endpoint = WebhookEndpoint(url), let port = endpoint.tlsPort else {
            throw .unreachable("no https endpoint")
        }
        guard let address = try? await policy.addresses(of: endpoint).first else {
            throw .unreachable("its host has no address that requests may go to")
        }
        var tls = TLSClientConfiguration(serverName: endpoint.host, caFile: caFile, handshakeTimeout: .seconds(5))
        if let certificateFile, let keyFile {
            tls.identity = TLSIdentity(certificateChain: .file(certificateFile), privateKey: .file(keyFile.path))
        }
        return try await CertificateProbe.remaining(at: address, port, tls)
    }

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
