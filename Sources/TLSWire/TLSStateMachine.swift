/// The life of a TLS connection as pure decisions: each event returns its caller's action.
///
/// States go one way: `idle` → `handshaking` → `established` → `closing` → `closed`; each may also go to `closed` at
/// once. No state is entered twice, so a late timer is ignored.
package struct TLSStateMachine: Sendable {
    package enum State: Sendable, Hashable, CaseIterable {
        /// The transport is not connected. To `handshaking` or `closed`.
        case idle
        /// The peer is not verified and no application data may be sent. To `established` or `closed`.
        case handshaking
        /// Application data flows. To `closing` or `closed`.
        case established
        /// Our close_notify is sent, the peer's is awaited, other input is dropped. To `closed`.
        case closing
        /// Over: cleanly, by a failure, or because the transport ended. Final.
        case closed
    }

    package private(set) var state: State = .idle

    package init() {}

    package enum StartAction: Sendable, Hashable {
        case startHandshake
        case ignore
    }

    /// Handles the connection of the transport.
    package mutating func transportActive() -> StartAction {
        switch self.state {
        case .idle:
            self.state = .handshaking
            return .startHandshake
        case .handshaking, .established, .closing, .closed:
            return .ignore
        }
    }

    package enum EstablishedAction: Sendable, Hashable {
        /// Stop the timer, announce the connection, send the waiting writes.
        case announce
        case ignore
    }

    /// Handles the end of the handshake, with the peer verified.
    package mutating func handshakeCompleted() -> EstablishedAction {
        switch self.state {
        case .handshaking:
            self.state = .established
            return .announce
        case .idle, .established, .closing, .closed:
            return .ignore
        }
    }

    package enum WriteAction: Sendable, Hashable {
        /// Keep the data until the handshake is done, up to the limit.
        case keep
        /// Keep the data until the flush, then encrypt it.
        case encrypt
        /// Fail the write's promise.
        case refuse
    }

    /// Handles a write of the application.
    package func write() -> WriteAction {
        switch self.state {
        case .idle, .handshaking: .keep
        case .established: .encrypt
        case .closing, .closed: .refuse
        }
    }

    package enum ReceiveAction: Sendable, Hashable {
        /// Continue the handshake with the bytes.
        case handshake
        /// Decrypt the bytes and deliver their data.
        case deliver
        /// Decrypt the bytes only to find the peer's close_notify.
        case discard
        case ignore
    }

    /// Handles bytes from the transport.
    package func received() -> ReceiveAction {
        switch self.state {
        case .handshaking: .handshake
        case .established: .deliver
        case .closing: .discard
        case .idle, .closed: .ignore
        }
    }

    package enum CloseAction: Sendable, Hashable {
        /// Send close_notify, start the timer, wait for the peer's.
        case sendCloseNotify
        /// Already closing: remember the promise.
        case join
        /// Close the transport now: no peer to send close_notify to.
        case closeTransport
    }

    /// Handles the application's close.
    package mutating func closeRequested() -> CloseAction {
        switch self.state {
        case .idle, .handshaking:
            self.state = .closed
            return .closeTransport
        case .established:
            self.state = .closing
            return .sendCloseNotify
        case .closing:
            return .join
        case .closed:
            return .closeTransport
        }
    }

    package enum PeerCloseAction: Sendable, Hashable {
        case failHandshake
        /// Announce the clean end, answer with close_notify, close the transport.
        case answer
        /// Announce the clean end and close the transport.
        case finish
        case ignore
    }

    package mutating func closeNotifyReceived() -> PeerCloseAction {
        switch self.state {
        case .handshaking:
            // The failure is reported through failed(), which moves on to `closed`.
            return .failHandshake
        case .established:
            self.state = .closed
            return .answer
        case .closing:
            self.state = .closed
            return .finish
        case .idle, .closed:
            return .ignore
        }
    }

    package enum EndAction: Sendable, Hashable {
        /// Report that the peer disconnected during the handshake.
        case failHandshake
        /// Report that the data may be incomplete.
        case failTruncated
        case finish
    }

    package mutating func transportEnded() -> EndAction {
        let before = self.state
        self.state = .closed
        return switch before {
        case .handshaking: .failHandshake
        case .established: .failTruncated
        case .idle, .closing, .closed: .finish
        }
    }

    package enum FailureAction: Sendable, Hashable {
        /// Send the alert, report the error, close the transport.
        case report
        /// The application has already closed: close the transport without a report.
        case finish
        case ignore
    }

    /// Handles a failure of OpenSSL or the transport.
    package mutating func failed() -> FailureAction {
        switch self.state {
        case .idle, .handshaking, .established:
            self.state = .closed
            return .report
        case .closing:
            self.state = .closed
            return .finish
        case .closed:
            return .ignore
        }
    }

    package enum Timer: Sendable, Hashable, CaseIterable {
        case handshake
        /// Bounds the wait for the peer's close_notify.
        case close
    }

    package enum TimerAction: Sendable, Hashable {
        case failHandshake
        /// Close the transport without the peer's close_notify.
        case finish
        case ignore
    }

    package mutating func fired(_ timer: Timer) -> TimerAction {
        switch (timer, self.state) {
        case (.handshake, .handshaking):
            // The failure is reported through failed(), which moves on to `closed`.
            return .failHandshake
        case (.close, .closing):
            self.state = .closed
            return .finish
        case (.handshake, .idle), (.handshake, .established), (.handshake, .closing), (.handshake, .closed),
            (.close, .idle), (.close, .handshaking), (.close, .established), (.close, .closed):
            return .ignore
        }
    }

    /// Whether to read from the transport without the application's request.
    ///
    /// The handshake and the peer's close_notify are ours to read; application data is not.
    package var readsOnItsOwn: Bool {
        switch self.state {
        case .handshaking, .closing: true
        case .idle, .established, .closed: false
        }
    }
}
