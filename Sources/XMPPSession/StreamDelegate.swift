package import NIOCore
package import Vocabulary
package import XMLWire
package import XMPP

/// What a stream is used for: the part of a connection that its ``StreamHandler`` leaves to others.
///
/// All calls come on the channel's event loop. Messages come once for each read of the socket, so that the dispatch costs
/// nothing per message.
package protocol StreamDelegate: AnyObject, SendableMetatype {
    /// Whether messages are taken.
    ///
    /// If not, they are passed over, so that the server keeps them for somebody else, and reading never pauses.
    static var takesMessages: Bool { get }

    /// The stream is bound.
    ///
    /// - Returns: Whether to use it: send the greeting and take stanzas. Otherwise it is closed in order.
    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool

    /// The session of a lost connection that is to go on over this one; nil where there is none.
    var suspended: SuspendedSession? { get }

    /// The stream goes on with ``suspended``: what the server has not got of it is to be sent again.
    func resumed(by handler: StreamHandler<Self>)

    /// Messages came; the callee empties the array, and may leave its storage for the next read.
    func received(_ messages: inout [IncomingMessage])

    /// A stanza came that is no message.
    ///
    /// - Parameters:
    ///   - kind: What it is.
    ///   - stanza: Lent for the call.
    /// - Returns: Why to end the connection at once; nil to go on.
    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String?

    /// Something else happened.
    func noticed(_ notice: StreamNotice)

    /// The end of a read of the socket.
    func readEnded()

    /// The connection is over; the last call.
    func ended(_ end: SessionEnd)
}

extension StreamDelegate {
    package var suspended: SuspendedSession? { nil }
    package func resumed(by handler: StreamHandler<Self>) {}
    package func received(_ messages: inout [IncomingMessage]) { messages.removeAll() }
    package func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? { nil }
    package func noticed(_ notice: StreamNotice) {}
    package func readEnded() {}
}

/// What happens on a stream that calls for no decision, but perhaps for a number or a line in the log.
package enum StreamNotice: Sendable {
    /// The connection is being made.
    case connecting
    /// TCP is connected.
    case reached(ReachedServer)
    /// TLS is established; the server's certificate ends in so many seconds.
    case encrypted(version: String, cipher: String, certificateEnd: Int?)
    /// The server has taken our word for who we are, in this way.
    case signedIn(SignIn)
    /// A stanza was skipped, for this reason.
    case skipped(SkippedStanza.Reason)
    /// A stanza that could not be read is answered for, and ends the stream.
    case refused
    /// A query was answered.
    case answered
    /// Stream management is decided.
    case managed(StreamManagement.Outcome)
    /// Another resource of our account is online.
    case rival
    /// The peer will close the stream, which was bound for this long, and wants a replacement to be opened.
    case draining(bound: Duration)
    /// The peer has not closed the stream that it drains: we close it.
    case drainExpired
    /// The server was told to store messages, since reading has been paused for long.
    case withdrawn
}
