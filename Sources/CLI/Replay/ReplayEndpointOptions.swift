import ArgumentParser
import ConfigurationKeys
import UpstreamConfiguration
import Vocabulary
import Worker
import XMPPEndpoint

/// The options for an XMPP endpoint that is not in the configuration.
struct ReplayEndpointOptions: ParsableArguments {
    @Option(help: "File with the account's secret; by default that of the configured sender with this account.")
    var secretFile: String?
    @Option(help: "Certificates to trust, PEM; by default the system's.")
    var caFile: String?
    @Option(help: "How TLS starts: direct or starttls.")
    var tls: String?
    @Option(help: "The name that the certificate must have; by default the host.")
    var serverName: String?
    @Option(help: "The user name for SASL: jid or localpart.")
    var username: String?
    @Option(help: "How many connections in a row may fail before the replay fails.")
    var attempts: Int?

    /// The settings for an account: the configured sender's, overridden by the flags.
    func make(
        host: String,
        port: Int,
        account: String,
        _ configuration: WorkerConfiguration
    ) throws -> EndpointSettings {
        let parts = account.split(separator: "@").map(String.init)
        let known = configuration.senders.first { $0.senderID == parts[0] && $0.domain == parts[1] }
        // A sender with a client certificate may have no secret.
        let knownSecret = known.flatMap { $0.secretFile.path.isEmpty ? nil : $0.secretFile.path }
        guard let secret = secretFile ?? knownSecret else {
            throw CommandFailure(
                .usage,
                "\(account) is not a configured sender with a secret: give its secret with --secret-file FILE"
            )
        }
        for (flag, value, allowed) in [
            ("tls", tls, ["direct", "starttls"]), ("username", username, ["jid", "localpart"]),
        ] {
            guard value.map(allowed.contains) ?? true else {
                throw CommandFailure(.usage, "--\(flag) takes \(allowed.joined(separator: " or "))")
            }
        }
        let isLocalpart = username.map { $0 == "localpart" } ?? (known?.username == .localpart)
        var settings = try EndpointSettings(
            host: host,
            port: port,
            account: parts[0],
            domain: parts[1],
            secret: SecretFile(path: secret),
            caFile: caFile ?? known?.caFile,
            serverName: serverName ?? (known?.host == host ? known?.serverName : nil) ?? host,
            isStartTLS: tls.map { $0 == "starttls" } ?? (known?.tlsMode == .starttls),
            isLocalpart: isLocalpart,
            // CCS users sign in with the whole address, and CCS supports only PLAIN.
            allowsPlain: known?.allowPlain ?? !isLocalpart,
            configuration
        )
        if let attempts { settings.attempts = max(1, attempts) }
        return settings
    }
}
