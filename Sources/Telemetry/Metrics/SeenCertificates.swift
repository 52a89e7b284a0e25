import Synchronization
package import Vocabulary

/// The latest end of each certificate seen, by its kind and the name of sender or handler.
package final class SeenCertificates: Sendable {
    package struct Certificate: Sendable, Hashable {
        package var kind: CertificateKind
        /// The sender's id or the handler's name; empty for the console.
        package var name: String
        package var end: Timestamp
    }

    private let ends = Mutex<[CertificateKind: [String: Timestamp]]>([:])

    package init() {}

    /// Records a certificate that ends in `remaining` seconds, negative if it has; the console's name is empty.
    package func note(_ kind: CertificateKind, of name: String, remaining: Int, now: Timestamp = .now) {
        let end = now + .seconds(remaining)
        ends.withLock { $0[kind, default: [:]][name] = end }
    }

    package var all: [Certificate] {
        let ends = ends.withLock { $0 }
        return CertificateKind.allCases.flatMap { kind in
            (ends[kind] ?? [:]).sorted { $0.key < $1.key }.map { Certificate(kind: kind, name: $0, end: $1) }
        }
    }
}
