import Handlers
import Logging
import Probing
import ServiceLifecycle
import TLSWire
import Telemetry
import UpstreamConfiguration
import Vocabulary

/// Records when certificates expire that no stream shows, and warns before they do.
///
/// Files are read every hour, since another program renews them; webhooks' servers are asked as often, over a
/// connection that carries no request.
struct CertificateWatch: Service {
    /// The intervals of checks, and of repeated warnings.
    private static let (interval, silence) = (Duration.seconds(3_600), Duration.seconds(86_400))
    /// The delay of the first check: streams and handlers go first.
    private static let first = Duration.seconds(60)

    private let configuration: WorkerConfiguration
    private let dispatches: Bool
    private let metrics: Metrics
    private let logger: Logger

    init(_ parts: WorkerParts) {
        configuration = parts.configuration
        dispatches = parts.roles.contains(.dispatch)
        metrics = parts.metrics
        logger = parts.logger
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
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
    }

    private func look() async {
        // The console may run as another user: certificates that this one can't read are not ours to watch.
        if let file = configuration.consoleCertificateFile, let end = try? CertificateEnd.remaining(.file(file)) {
            metrics.certificates.note(.console, of: "", remaining: end)
        }
        guard dispatches else { return }
        for handler in configuration.handlers {
            await handler.kind.certificates { metrics.certificates.note($0, of: handler.name, remaining: $1) }
        }
    }

    private func warn(_ told: inout [SeenCertificates.Certificate: ContinuousClock.Instant]) {
        let now = Timestamp.now
        told = told.filter { $1.duration(to: .now) < Self.silence }
        for certificate in metrics.certificates.all {
            let left = certificate.end - now
            guard left < .seconds(CertificateProbe.warning), told[certificate] == nil else { continue }
            told[certificate] = .now
            let isSender = [.server, .client].contains(certificate.kind)
            logger.event(
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
