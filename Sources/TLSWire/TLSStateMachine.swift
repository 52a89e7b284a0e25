/// The life of a TLS connection as pure decisions: each event returns its caller's action.
///
/// States go one way: `idle` → `handshaking` → `established` → `closing` → `closed`; each may also go to `closed` at
/// once. No state is entered twice, so a late timer is ignored.
struct TLSStateMachine: Sendable {
    enum State: Sendable, CaseIterable {
        /// The transport is not connected.
        case idle
        /// The peer is not verified and no application data may be sent.
        case handshaking
        case established
        /// Our close_notify is sent, the peer's is awaited, other input is dropped.
        case closing
        case closed
    }

    private(set) var state = State.idle

    enum StartAction { case startHandshake, ignore }

    /// Handles the connection of the transport.
    mutating func transportActive() -> StartAction {
        guard state == .idle else { return .ignore }
        state = .handshaking
        return .startHandshake
    }

    enum EstablishedAction { case announce, ignore }

    /// Handles the end of the handshake, with the peer verified.
    mutating func handshakeCompleted() -> EstablishedAction {
        guard state == .handshaking else { return .ignore }
        state = .established
        return .announce
    }

    enum WriteAction {
        /// Keep the data until the handshake is done, up to the limit.
        case keep
        /// Keep the data until the flush, then encrypt it.
        case encrypt
        /// Fail the write's promise.
        case refuse
    }

    func write() -> WriteAction {
        switch state {
        case .idle, .handshaking: .keep
        case .established: .encrypt
        case .closing, .closed: .refuse
        }
    }

    enum ReceiveAction {
        case handshake, deliver
        /// Decrypt the bytes only to find the peer's close_notify.
        case discard
        case ignore
    }

    func received() -> ReceiveAction {
        switch state {
        case .handshaking: .handshake
        case .established: .deliver
        case .closing: .discard
        case .idle, .closed: .ignore
        }
    }

    enum CloseAction {
        /// Send close_notify, start the timer, wait for the peer's.
        case sendCloseNotify
        /// Already closing: remember the promise.
        case join
        /// No peer to send close_notify to.
        case closeTransport
    }

    mutating func closeRequested() -> CloseAction {
        switch state {
        case .idle, .handshaking, .closed:
            state = .closed
            return .closeTransport
        case .established:
            state = .closing
            return .sendCloseNotify
        case .closing: return .join
        }
    }

    enum PeerCloseAction {
        /// Fail through ``failed()``, which moves on to `closed`.
        case failHandshake
        /// Announce the clean end, answer with close_notify, close the transport.
        case answer
        /// Announce the clean end and close the transport.
        case finish
        case ignore
    }

    mutating func closeNotifyReceived() -> PeerCloseAction {
        switch state {
        case .handshaking: return .failHandshake
        case .established:
            state = .closed
            return .answer
        case .closing:
            state = .closed
            return .finish
        case .idle, .closed: return .ignore
        }
    }

    enum EndAction { case failHandshake, failTruncated, finish }

    mutating func transportEnded() -> EndAction {
        defer { state = .closed }
        return switch state {
        case .handshaking: .failHandshake
        case .established: .failTruncated
        case .idle, .closing, .closed: .finish
        }
    }

    enum FailureAction {
        /// Send the alert, report the error, close the transport.
        case report
        /// The application has already closed: close the transport without a report.
        case finish
        case ignore
    }

    mutating func failed() -> FailureAction {
        defer { state = .closed }
        return switch state {
        case .idle, .handshaking, .established: .report
        case .closing: .finish
        case .closed: .ignore
        }
    }

    enum Timer: Sendable {
        case handshake
        /// Bounds the wait for the peer's close_notify.
        case close
    }

    enum TimerAction {
        /// Fail through ``failed()``, which moves on to `closed`.
        case failHandshake
        /// Close the transport without the peer's close_notify.
        case finish
        case ignore
    }

    mutating func fired(_ timer: Timer) -> TimerAction {
        switch (timer, state) {
        case (.handshake, .handshaking): return .failHandshake
        case (.close, .closing):
            state = .closed
            return .finish
        default: return .ignore
        }
    }

    /// Whether to read from the transport without the application's request.
    ///
    /// The handshake and the peer's close_notify are ours to read; application data is not.
    var readsOnItsOwn: Bool { state == .handshaking || state == .closing }
}
