package import NIOCore
package import Vocabulary
package import XMLWire
package import XMPP

/// The user of a stream, called on its event loop; messages come once for each read of the socket.
package protocol StreamDelegate: AnyObject, SendableMetatype {
    /// Whether messages are taken; if not, the server keeps them for another client, and reading never pauses.
    static var takesMessages: Bool { get }

    /// Handles the bind; returns whether to use the stream (greet, take stanzas) or to close it properly.
    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool

    /// The session of a lost connection to resume over this one, if any.
    var suspended: SuspendedSession? { get }

    /// Handles the resumption of ``suspended``: sends again what the server lacks.
    func resumed(by handler: StreamHandler<Self>)

    /// Handles the stream's beginning: it is bound, and the greeting is written.
    func greeted(by handler: StreamHandler<Self>)

    /// Takes messages and empties the array, whose storage may serve the next read.
    func received(_ messages: inout [IncomingMessage])

    /// Handles a stanza other than a message, lent for the call; returns why to end the connection at once, or nil.
    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String?

    func noticed(_ notice: StreamNotice)

    func readEnded()

    /// Handles the end of the connection; the last call.
    func ended(_ end: SessionEnd)
}

extension StreamDelegate {
    package var suspended: SuspendedSession? { nil }
    package func resumed(by handler: StreamHandler<Self>) {}
    package func greeted(by handler: StreamHandler<Self>) {}
    package func received(_ messages: inout [IncomingMessage]) { messages.removeAll() }
    package func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? { nil }
    package func noticed(_ notice: StreamNotice) {}
    package func readEnded() {}
}

/// A stream event that calls for no decision, but perhaps for a metric or a log line.
package enum StreamNotice: Sendable {
    case connecting
    case reached(ReachedServer)
    /// TLS is established; the server's certificate expires in that many seconds.
    case encrypted(version: String, cipher: String, certificateEnd: Int?)
    case signedIn(SignIn)
    /// It was the first with channel binding: nothing less is accepted from now on.
    case pinned
    case skipped(SkippedStanza.Reason)
    /// A query was answered, or an unreadable stanza, which ends the stream, counted as handled.
    case counted
    case managed(StreamManagement.Outcome)
    case rival
    /// The peer will close the stream, which was bound for this long, and wants a replacement.
    case draining(bound: Duration)
    /// The peer has not closed the draining stream: we close it.
    case drainExpired
    /// The server was told to store messages, since reading has been paused for long.
    case withdrawn
}
