/// A user inbound event that ``TLSHandler`` fires.
package enum TLSEvent: Sendable, Hashable {
    /// The handshake is complete and, on a client, the peer is verified.
    ///
    /// `version` is OpenSSL's name (`TLSv1.3`), `cipher` the suite's standard name. No data of the application is sent
    /// before this event.
    case established(version: String, cipher: String)
    /// The peer sent close_notify: nothing it sent is missing (RFC 8446 §6.1).
    ///
    /// `channelInactive` follows. Without this event, an end of the connection that the application did not ask for is
    /// preceded by a ``TLSError`` with the code ``TLSError/Code/truncated``.
    case closedCleanly
}
