import Synchronization
package import Vocabulary

/// The owner of a certificate (`upstream_certificate_end_timestamp_seconds{certificate}`).
package enum CertificateKind: Int, MetricLabel {
    /// A sender's server.
    case server
    /// Ours, shown to a sender's server.
    case client
    /// A webhook's server.
    case webhook
    /// Ours, shown to a webhook's server.
    case webhookClient
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

/// The latest end of each certificate seen, by its kind and the name of sender or handler.
package final class SeenCertificates: Sendable {
    package struct Certificate: Sendable, Hashable {
        package var kind: CertificateKind
        /// The sender's id or the handler's name; empty for the console.
        package var name: String
        package var end: Timestamp
    }

    private struct Key: Hashable {
        var kind: CertificateKind
        var name: String
    }

    private let ends = Mutex<[Key: Timestamp]>([:])

    package init() {}

    /// Records a certificate that ends in `remaining` seconds, negative if it has; the console's name is empty.
    package func note(_ kind: CertificateKind, of name: String, remaining: Int, now: Timestamp = .now) {
        let end = now + .seconds(remaining)
        ends.withLock { $0[Key(kind: kind, name: name)] = end }
    }

    /// All certificates, sorted by kind and name.
    package var all: [Certificate] {
        ends.withLock { $0 }.map { Certificate(kind: $0.kind, name: $0.name, end: $1) }
            .sorted { ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name) }
    }
}
