import Handlers
import Logging
import Probing
import TLSWire
import Telemetry
import UpstreamConfiguration
import Vocabulary

/// Records when certificates expire that no stream shows, and warns before they do.
///
/// Files are read every hour, since another program renews them; webhooks' servers are asked as often, over a
/// connection that carries no request.
struct CertificateWatch {
    /// The intervals of checks, and of repeated warnings.
    private static let (interval, silence) = (Duration.seconds(3_600), Duration.seconds(86_400))
    /// The delay of the first check: streams and handlers go first.
    private static let first = Duration.seconds(60)

    let parts: WorkerParts

    /// Watches until cancelled.
    func run() async {
        var told: [SeenCertificates.Certificate: ContinuousClock.Instant] = [:]
        var wait = Self.first
        // What is known from the start is reported at once.
        warn(&told)
        while (try? await Task.sleep(for: wait)) != nil {
            await look()
            warn(&told)
            wait = Self.interval
        }
    }

    private func look() async {
        // The console may run as another user: certificates that this one can't read are not ours to watch.
        if let file = parts.configuration.consoleCertificateFile, let end = try? CertificateEnd.remaining(.file(file)) {
            parts.metrics.certificates.note(.console, of: "", remaining: end)
        }
        guard parts.roles.contains(.dispatch) else { return }
        for handler in parts.configuration.handlers {
            await handler.kind.certificates { parts.metrics.certificates.note($0, of: handler.name, remaining: $1) }
        }
    }

    private func warn(_ told: inout [SeenCertificates.Certificate: ContinuousClock.Instant]) {
        let now = Timestamp.now
        told = told.filter { $1.duration(to: .now) < Self.silence }
        for certificate in parts.metrics.certificates.all {
            let left = certificate.end - now
            guard left < .seconds(CertificateProbe.warning), told[certificate] == nil else { continue }
            told[certificate] = .now
            let isSender = [.server, .client].contains(certificate.kind)
            parts.logger.event(
                .warning,
                .certificateExpiring,
                "a certificate has expired or will soon: renew it",
                [
                    isSender ? .sender : .handler: .string(certificate.name), .remainingSeconds: .seconds(left),
                    .certificate: .string(certificate.kind.rawValue),
                ]
            )
        }
    }
}
