import Testing

@testable import TLSWire

/// Every state with every event: what is to be done, and the state after it.
@Suite struct TLSStateMachineTests {
    typealias State = TLSStateMachine.State

    /// A machine led into `state` by events.
    static func machine(in state: State) -> TLSStateMachine {
        var machine = TLSStateMachine()
        switch state {
        case .idle:
            break
        case .handshaking:
            _ = machine.transportActive()
        case .established:
            _ = machine.transportActive()
            _ = machine.handshakeCompleted()
        case .closing:
            _ = machine.transportActive()
            _ = machine.handshakeCompleted()
            _ = machine.closeRequested()
        case .closed:
            _ = machine.closeRequested()
        }
        #expect(machine.state == state)
        return machine
    }

    /// Checks one event in all states; the rows must name every state.
    static func check<Action: Equatable>(
        _ event: (inout TLSStateMachine) -> Action,
        _ rows: [State: (Action, State)],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(Set(rows.keys) == Set(State.allCases), sourceLocation: sourceLocation)
        for (state, (action, next)) in rows {
            var machine = self.machine(in: state)
            #expect(event(&machine) == action, "in \(state)", sourceLocation: sourceLocation)
            #expect(machine.state == next, "after \(state)", sourceLocation: sourceLocation)
        }
    }

    @Test("the handshake begins once, when the transport is connected")
    func transportActive() {
        Self.check(
            { $0.transportActive() },
            [
                .idle: (.startHandshake, .handshaking),
                .handshaking: (.ignore, .handshaking),
                .established: (.ignore, .established),
                .closing: (.ignore, .closing),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("the connection is announced once, after the handshake")
    func handshakeCompleted() {
        Self.check(
            { $0.handshakeCompleted() },
            [
                .idle: (.ignore, .idle),
                .handshaking: (.announce, .established),
                .established: (.ignore, .established),
                .closing: (.ignore, .closing),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("Nothing is encrypted before the handshake is done") func write() {
        Self.check(
            { $0.write() },
            [
                .idle: (.keep, .idle),
                .handshaking: (.keep, .handshaking),
                .established: (.encrypt, .established),
                .closing: (.refuse, .closing),
                .closed: (.refuse, .closed),
            ]
        )
    }

    @Test("Data is delivered only while established") func received() {
        Self.check(
            { $0.received() },
            [
                .idle: (.ignore, .idle),
                .handshaking: (.handshake, .handshaking),
                .established: (.deliver, .established),
                .closing: (.discard, .closing),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("a close sends close_notify where there is a peer to read it, and else closes the transport")
    func closeRequested() {
        Self.check(
            { $0.closeRequested() },
            [
                .idle: (.closeTransport, .closed),
                .handshaking: (.closeTransport, .closed),
                .established: (.sendCloseNotify, .closing),
                .closing: (.join, .closing),
                .closed: (.closeTransport, .closed),
            ]
        )
    }

    @Test("the peer's close_notify is answered while established, and fails a handshake")
    func closeNotifyReceived() {
        Self.check(
            { $0.closeNotifyReceived() },
            [
                .idle: (.ignore, .idle),
                .handshaking: (.failHandshake, .handshaking),
                .established: (.answer, .closed),
                .closing: (.finish, .closed),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("Only an established connection can be truncated") func transportEnded() {
        Self.check(
            { $0.transportEnded() },
            [
                .idle: (.finish, .closed),
                .handshaking: (.failHandshake, .closed),
                .established: (.failTruncated, .closed),
                .closing: (.finish, .closed),
                .closed: (.finish, .closed),
            ]
        )
    }

    @Test("A failure is reported once") func failed() {
        Self.check(
            { $0.failed() },
            [
                .idle: (.report, .closed),
                .handshaking: (.report, .closed),
                .established: (.report, .closed),
                .closing: (.finish, .closed),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("A late timer changes nothing") func timers() {
        Self.check(
            { $0.fired(.handshake) },
            [
                .idle: (.ignore, .idle),
                .handshaking: (.failHandshake, .handshaking),
                .established: (.ignore, .established),
                .closing: (.ignore, .closing),
                .closed: (.ignore, .closed),
            ]
        )
        Self.check(
            { $0.fired(.close) },
            [
                .idle: (.ignore, .idle),
                .handshaking: (.ignore, .handshaking),
                .established: (.ignore, .established),
                .closing: (.finish, .closed),
                .closed: (.ignore, .closed),
            ]
        )
    }

    @Test("the machine reads for itself during the handshake and while closing")
    func readsOnItsOwn() {
        Self.check(
            { $0.readsOnItsOwn },
            [
                .idle: (false, .idle),
                .handshaking: (true, .handshaking),
                .established: (false, .established),
                .closing: (true, .closing),
                .closed: (false, .closed),
            ]
        )
    }
}
