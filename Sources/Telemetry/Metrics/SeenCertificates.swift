import Synchronization
package import Vocabulary

/// Whose certificate it is (`upstream_certificate_end_timestamp_seconds{certificate}`).
package enum CertificateKind: Int, MetricLabel {
    /// A sender's server's.
    case server
    /// Ours, shown to a sender's server.
    case client
    /// A webhook's server's.
    case webhook
    /// Ours, shown to a webhook's server.
    case webhookClient
    /// The console's.
    case console

    package var text: String {
        switch self {
        case .server: "server"
        case .client: "client"
        case .webhook: "webhook"
        case .webhookClient: "webhook_client"
        case .console: "console"
        }
    }
}

/// The certificates that were seen, each by its kind and the name of the sender or handler, and when the latest of them ends.
package final class SeenCertificates: Sendable {
    /// One of them.
    package struct Certificate: Sendable, Hashable {
        /// Whose it is.
        package var kind: CertificateKind
        /// The sender's id or the handler's name; empty for the console's.
        package var name: String
        /// When it ends.
        package var end: Timestamp
    }

    private struct Key: Hashable {
        var kind: CertificateKind
        var name: String
    }

    private let ends = Mutex<[Key: Timestamp]>([:])

    package init() {}

    /// A certificate was seen.
    ///
    /// - Parameters:
    ///   - kind: Whose it is.
    ///   - name: The sender's id or the handler's name, as configured; empty for the console's.
    ///   - remaining: In how many seconds it ends; negative where it has.
    ///   - now: The current time.
    package func note(_ kind: CertificateKind, of name: String, remaining: Int, now: Timestamp = .now) {
        let end = now + .seconds(remaining)
        ends.withLock { $0[Key(kind: kind, name: name)] = end }
    }

    /// All of them, by kind and name.
    package var all: [Certificate] {
        ends.withLock { $0 }.map { Certificate(kind: $0.kind, name: $0.name, end: $1) }
            .sorted { ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name) }
    }
}
