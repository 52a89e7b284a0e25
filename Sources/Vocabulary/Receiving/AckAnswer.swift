/// What answers a copy once its transaction has committed.
///
/// The spans are into the copy's bytes: the bodies of JSON string literals as they came, without their quotes, which an ack
/// echoes.
package enum AckAnswer: Sendable, Equatable {
    /// Nothing: there is no usable id, or no receipt was asked for.
    case none
    /// Nothing: the ack would be longer than the server takes.
    case tooLarge
    /// The CCS's ack, with the literals of `message_id` and `from`.
    case gcm(id: ByteSpan, to: ByteSpan)
    /// The same in a JSON container (XEP-0335).
    case json(id: ByteSpan, to: ByteSpan)
    /// A delivery receipt (XEP-0184), with the stanza's `id`.
    case receipt(id: ByteSpan)

    /// Whether there is one.
    @inlinable package var isSent: Bool {
        @inline(__always)
        get {
            switch self {
            case .none, .tooLarge: false
            case .gcm, .json, .receipt: true
            }
        }
    }
}
