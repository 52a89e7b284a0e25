/// Ties a SASL exchange to its TLS connection (RFC 5056): two connections through somebody in the middle have different
/// values, so a proof that includes one is worthless on the other.
package struct ChannelBinding: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The types, by their registered names, strongest first.
    package enum Kind: String, Sendable, CaseIterable {
        /// Keying material of the connection (RFC 9266).
        case exporter = "tls-exporter"
        /// The first Finished message of the handshake (RFC 5929 section 3); only below TLS 1.3.
        case unique = "tls-unique"
        /// The hash of the server's certificate (RFC 5929 section 4): useless against somebody with its key.
        case endPoint = "tls-server-end-point"
    }

    package let kind: Kind
    package let data: [UInt8]

    package init(_ kind: Kind, data: [UInt8]) {
        self.kind = kind
        self.data = data
    }

    package var description: String { kind.rawValue }

    package var customMirror: Mirror { Mirror(self, children: ["kind": kind.rawValue]) }
}
