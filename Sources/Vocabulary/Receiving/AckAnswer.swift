/// The answer to a copy once its transaction has committed.
///
/// The spans are bodies of JSON string literals as received, without their quotes, which an ack echoes.
package enum AckAnswer: Sendable, Equatable {
    /// None: there is no usable id, or no receipt was requested.
    case none
    /// None: the ack would be longer than the server accepts.
    case tooLarge
    /// The CCS's ack, with the literals of `message_id` and `from`.
    case gcm(id: ByteSpan, to: ByteSpan)
    /// The CCS's ack in a JSON container (XEP-0335).
    case json(id: ByteSpan, to: ByteSpan)
    /// A delivery receipt (XEP-0184), with the stanza's `id`.
    case receipt(id: ByteSpan)

    @inlinable package var isSent: Bool {
        @inline(__always)
        get {
            switch self {
            case .none, .tooLarge: false
            default: true
            }
        }
    }
}
