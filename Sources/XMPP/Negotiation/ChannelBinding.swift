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
    let data: [UInt8]

    package init(_ kind: Kind, data: [UInt8]) {
        self.kind = kind
        self.data = data
    }

    package var description: String { kind.rawValue }

    package var customMirror: Mirror { Mirror(self, children: ["kind": kind.rawValue]) }
}

/// The first part of a SCRAM message: the client's statement about channel binding (RFC 5802 section 7).
package enum ChannelBindingFlag: Sendable, Equatable {
    /// `n`: TLS gives us nothing to bind to.
    case unsupported
    /// `y`: we support it and believe that the server does not. A server that does must refuse, since its offer was
    /// removed on the path.
    case notOffered
    /// `p`: the proof is valid for this connection alone.
    case bound(ChannelBinding)

    /// The GS2 header, without another identity (RFC 5801 section 4).
    var header: [UInt8] {
        switch self {
        case .unsupported: Array("n,,".utf8)
        case .notOffered: Array("y,,".utf8)
        case .bound(let binding): Array("p=\(binding.kind.rawValue),,".utf8)
        }
    }

    /// The value that the last message repeats: the header, followed by the binding's data.
    var input: [UInt8] {
        if case .bound(let binding) = self { header + binding.data } else { header }
    }
}
