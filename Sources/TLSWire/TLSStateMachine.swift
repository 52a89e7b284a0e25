/// The life of one TLS connection, as decisions only: each event returns what its caller has to do.
///
/// States go one way: `idle` → `handshaking` → `established` → `closing` → `closed`, each of them may also go to `closed`
/// at once. No state is entered twice, so a late timer is ignored.
package struct TLSStateMachine: Sendable {
    /// Where the connection stands.
    package enum State: Sendable, Hashable, CaseIterable {
        /// The transport is not connected. To `handshaking` or `closed`.
        case idle
        /// The peer is not verified and nothing of the application may go out. To `established` or `closed`.
        case handshaking
        /// Application data flows. To `closing` or `closed`.
        case established
        /// Our close_notify is out, the peer's is awaited, what it still sends is dropped. To `closed`.
        case closing
        /// Over: cleanly, by a failure, or because the transport ended. Final.
        case closed
    }

    /// The state.
    package private(set) var state: State = .idle

    package init() {}

    /// What to do when the transport is connected.
    package enum StartAction: Sendable, Hashable {
        /// Start the handshake and its timer.
        case startHandshake
        case ignore
    }

    /// The transport is connected.
    package mutating func transportActive() -> StartAction {
        switch self.state {
        case .idle:
            self.state = .handshaking
            return .startHandshake
        case .handshaking, .established, .closing, .closed:
            return .ignore
        }
    }

    /// What to do when the handshake is done.
    package enum EstablishedAction: Sendable, Hashable {
        /// Stop the timer, announce the connection, send what waited.
        case announce
        case ignore
    }

    /// The handshake is done and the peer verified.
    package mutating func handshakeCompleted() -> EstablishedAction {
        switch self.state {
        case .handshaking:
            self.state = .established
            return .announce
        case .idle, .established, .closing, .closed:
            return .ignore
        }
    }

    /// What to do with data the application writes.
    package enum WriteAction: Sendable, Hashable {
        /// Keep it until the handshake is done, up to the limit.
        case keep
        /// Keep it until the flush, then encrypt it.
        case encrypt
        /// Fail its promise.
        case refuse
    }

    /// The application writes.
    package func write() -> WriteAction {
        switch self.state {
        case .idle, .handshaking: .keep
        case .established: .encrypt
        case .closing, .closed: .refuse
        }
    }

    /// What to do with bytes from the transport.
    package enum ReceiveAction: Sendable, Hashable {
        /// Continue the handshake with them.
        case handshake
        /// Decrypt them and deliver what they hold.
        case deliver
        /// Decrypt them only to find the peer's close_notify.
        case discard
        case ignore
    }

    /// Bytes have come from the transport.
    package func received() -> ReceiveAction {
        switch self.state {
        case .handshaking: .handshake
        case .established: .deliver
        case .closing: .discard
        case .idle, .closed: .ignore
        }
    }

    /// What to do when the application closes.
    package enum CloseAction: Sendable, Hashable {
        /// Send close_notify, start the timer, wait for the peer's.
        case sendCloseNotify
        /// Already on the way: remember the promise.
        case join
        /// Close the transport now: no peer to send close_notify to.
        case closeTransport
    }

    /// The application closes.
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

    /// What to do when the peer's close_notify comes.
    package enum PeerCloseAction: Sendable, Hashable {
        /// Report a failed handshake.
        case failHandshake
        /// Announce the clean end, answer with close_notify, close the transport.
        case answer
        /// Announce the clean end and close the transport.
        case finish
        case ignore
    }

    /// The peer's close_notify has come.
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

    /// What to do when the transport has ended.
    package enum EndAction: Sendable, Hashable {
        /// Report that the peer went away in the middle of the handshake.
        case failHandshake
        /// Report that the data may be incomplete.
        case failTruncated
        /// Nothing to report.
        case finish
    }

    /// The transport has ended.
    package mutating func transportEnded() -> EndAction {
        let before = self.state
        self.state = .closed
        return switch before {
        case .handshaking: .failHandshake
        case .established: .failTruncated
        case .idle, .closing, .closed: .finish
        }
    }

    /// What to do about a failure.
    package enum FailureAction: Sendable, Hashable {
        /// Send the alert, report the error, close the transport.
        case report
        /// The application has already closed: close the transport without a report.
        case finish
        case ignore
    }

    /// OpenSSL or the transport has failed.
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

    /// The two timers.
    package enum Timer: Sendable, Hashable, CaseIterable {
        /// Bounds the handshake.
        case handshake
        /// Bounds the wait for the peer's close_notify.
        case close
    }

    /// What to do when a timer has fired.
    package enum TimerAction: Sendable, Hashable {
        /// Report that the handshake took too long.
        case failHandshake
        /// Close the transport without the peer's close_notify.
        case finish
        case ignore
    }

    /// A timer has fired.
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

    /// Whether the transport must be read although the application has not asked for it.
    ///
    /// The handshake and the peer's close_notify are ours to read; application data is not.
    package var readsOnItsOwn: Bool {
        switch self.state {
        case .handshaking, .closing: true
        case .idle, .established, .closed: false
        }
    }
}
