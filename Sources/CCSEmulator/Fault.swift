/// A fault seen in real servers and networks; ``FaultScript/reference`` says what each does.
package enum Fault: Sendable, Equatable {
    // Faults of the message whose delivery triggered them.
    case duplicate, redeliver, conflict, bytewise
    case torn(milliseconds: Int)
    case closeBeforeAck

    // Faults of the connection that delivered the message.
    case close, reset, cut, drain, drainNack, halfDead, stanzaError, whitespace, ping, noise
    case stall(milliseconds: Int)
    case slowAcks(milliseconds: Int)
    /// Nil for the next one of the list, as for `oddJSON`.
    case badXML(String?)
    case oddJSON(String?)
    case streamError(String)
    case nack(String)

    // Faults of a new connection.
    case refuse, closeAfterAuth, closeAfterBind, mute

    /// Whether the fault needs a `connection` trigger.
    package var isForNegotiation: Bool { [.refuse, .closeAfterAuth, .closeAfterBind, .mute].contains(self) }
}

package enum FaultTrigger: Sendable, Equatable {
    /// Once, at the delivery of this number, counted from 1 over all connections.
    case after(Int)
    /// At every delivery whose number is a multiple of this.
    case every(Int)
    /// At the connections of these numbers, counted from 1 as they are accepted.
    case connection(ClosedRange<Int>)
}

package struct FaultRule: Sendable, Equatable {
    package var trigger: FaultTrigger
    package var fault: Fault

    package init(_ trigger: FaultTrigger, _ fault: Fault) {
        self.trigger = trigger
        self.fault = fault
    }
}

extension [FaultRule] {
    /// The faults triggered by the delivery of this number.
    func due(atDelivery number: Int) -> [Fault] {
        compactMap { rule in
            switch rule.trigger {
            case .after(number): rule.fault
            case .every(let count) where number % count == 0: rule.fault
            default: nil
            }
        }
    }

    func due(atConnection number: Int) -> [Fault] {
        compactMap { rule in
            if case .connection(let range) = rule.trigger, range.contains(number) { rule.fault } else { nil }
        }
    }
}
