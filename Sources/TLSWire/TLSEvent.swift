/// What ``TLSHandler`` tells the handlers behind it, as user inbound events.
package enum TLSEvent: Sendable, Hashable {
    /// The handshake is done and, on a client, the peer is verified.
    ///
    /// `version` is OpenSSL's name (`TLSv1.3`), `cipher` the suite's standard name. Nothing the application wrote has been
    /// sent before this event.
    case established(version: String, cipher: String)
    /// The peer's close_notify has come: nothing it sent is missing (RFC 8446 §6.1).
    ///
    /// `channelInactive` follows. Without this event an end of the connection that the application did not ask for is
    /// preceded by a ``TLSError`` with the code ``TLSError/Code/truncated``.
    case closedCleanly
}
