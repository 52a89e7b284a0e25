/// What ties a SASL exchange to the TLS connection under it (RFC 5056): two connections through somebody in the middle have
/// two different values, so a proof that holds one of them is worth nothing on the other.
package struct ChannelBinding: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The types, by their registered names, the strongest first.
    package enum Kind: String, Sendable, CaseIterable {
        /// Keying material of the connection (RFC 9266).
        case exporter = "tls-exporter"
        /// The first Finished message of the handshake (RFC 5929 section 3); below TLS 1.3 alone.
        case unique = "tls-unique"
        /// The hash of the server's certificate (RFC 5929 section 4): of no use against who has its key.
        case endPoint = "tls-server-end-point"
    }

    /// Which type it is.
    package let kind: Kind
    /// The value.
    let data: [UInt8]

    /// A binding of this type.
    package init(_ kind: Kind, data: [UInt8]) {
        self.kind = kind
        self.data = data
    }

    /// The type alone.
    package var description: String { kind.rawValue }

    /// The type alone, for `dump` and other reflection.
    package var customMirror: Mirror { Mirror(self, children: ["kind": kind.rawValue]) }
}

/// The first part of a SCRAM message: what the client says about channel binding (RFC 5802 section 7).
package enum ChannelBindingFlag: Sendable, Equatable {
    /// `n`: TLS gives us nothing to bind to.
    case unsupported
    /// `y`: we could, and believe that the server can't. One that can must refuse: its offer was taken away on the path.
    case notOffered
    /// `p`: the proof holds for this connection alone.
    case bound(ChannelBinding)

    /// The GS2 header, without another identity (RFC 5801 section 4).
    var header: [UInt8] {
        switch self {
        case .unsupported: Array("n,,".utf8)
        case .notOffered: Array("y,,".utf8)
        case .bound(let binding): Array("p=\(binding.kind.rawValue),,".utf8)
        }
    }

    /// The value that the last message repeats: the header, and behind it the binding's data.
    var input: [UInt8] {
        if case .bound(let binding) = self { header + binding.data } else { header }
    }
}
