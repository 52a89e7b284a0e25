import Handlers
package import Probing
package import UpstreamConfiguration

extension ProbeSequence {
    /// The sequences for everything that `run` needs, in its order: database, handlers, senders, and the console's
    /// certificate.
    package static func all(_ configuration: WorkerConfiguration) -> [ProbeSequence] {
        let session = DatabaseSession(configuration)
        let handlers = configuration.handlers.map { ProbeSequence("handler \($0.name)", $0.kind.probes(session)) }
        let console = configuration.consoleCertificateFile.map { file in
            let fix = "renew console.tls.certificate_file, then restart the console"
            return ProbeSequence("console", [Probe("certificate") { CertificateProbe.check(file: file, fix: fix) }])
        }
        return [.database(session)] + handlers
            + configuration.senders.indices.map { .sender(configuration, index: $0) } + [console].compactMap(\.self)
    }
}
