import Handlers
package import Probing
package import UpstreamConfiguration

extension ProbeSequence {
    /// The sequences for everything that `run` needs, in its order: database, handlers, senders, and the console's
    /// certificate.
    package static func all(_ configuration: WorkerConfiguration) -> [ProbeSequence] {
        let session = DatabaseSession(configuration)
        return [.database(session)]
            + configuration.handlers.map { ProbeSequence("handler \($0.name)", $0.kind.probes(session)) }
            + configuration.senders.indices.map { .sender(configuration, index: $0) }
            + (configuration.consoleCertificateFile.map { [.console(certificateFile: $0)] } ?? [])
    }

    /// The step about the console: when its certificate expires.
    private static func console(certificateFile: String) -> ProbeSequence {
        let fix = "renew console.tls.certificate_file, then restart the console"
        return ProbeSequence(
            "console",
            [Probe("certificate") { CertificateProbe.check(file: certificateFile, fix: fix) }]
        )
    }
}
