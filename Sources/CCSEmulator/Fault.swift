/// A fault seen in real servers and networks.
package enum Fault: Sendable, Equatable {
    // Faults of the message whose delivery triggered them.
    case duplicate
    /// Delivers the message at once on another connection as well.
    case redeliver
    /// Delivers another message with the same id directly afterwards.
    case conflict
    /// Writes half of the stanza, waits, and writes the rest.
    case torn(milliseconds: Int)
    case bytewise
    /// Closes directly after the message, without reading its ack.
    case closeBeforeAck

    // Faults of the connection that delivered the message.
    /// Ends the stream properly.
    case close
    case reset
    /// Closes the socket without the stream's end and without TLS's close_notify.
    case cut
    /// CONNECTION_DRAINING as a control message; the server closes later.
    case drain
    /// CONNECTION_DRAINING as a nack; the server closes later.
    case drainNack
    /// Neither reads nor writes for a while.
    case stall(milliseconds: Int)
    /// Keeps writing but reads nothing, so no acks, for a while.
    case slowAcks(milliseconds: Int)
    /// Neither sends nor answers anything any more.
    case halfDead
    /// Sends XML that a receiver must refuse; nil for the next one of the list.
    case badXML(String?)
    /// Sends an odd message; nil for the next one of the list.
    case oddJSON(String?)
    case streamError(String)
    /// Sends a stanza error for the message, as for a refused ack.
    case stanzaError
    case nack(String)
    case whitespace
    case ping
    /// Sends messages, presences and stanzas that the receiver must ignore.
    case noise

    // Faults of a new connection.
    case refuse
    case closeAfterAuth
    case closeAfterBind
    /// Never answers.
    case mute

    /// Whether the fault needs a `connection` trigger.
    package var isForNegotiation: Bool {
        switch self {
        case .refuse, .closeAfterAuth, .closeAfterBind, .mute: true
        default: false
        }
    }
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

/// The due faults, decided by counts of deliveries and connections.
struct FaultSchedule {
    private var rules: [FaultRule] = []
    private var nextDelivery = Int.max

    init(_ rules: [FaultRule]) {
        for rule in rules { add(rule, deliveries: 0) }
    }

    /// Adds a rule after this many deliveries; a past `after` or `connection` never triggers.
    mutating func add(_ rule: FaultRule, deliveries: Int) {
        rules.append(rule)
        schedule(after: deliveries)
    }

    func isDue(atDelivery number: Int) -> Bool { number >= nextDelivery }

    /// The faults triggered by the delivery of this number; numbers must not decrease.
    mutating func due(atDelivery number: Int) -> [Fault] {
        guard number >= nextDelivery else { return [] }
        let result = rules.compactMap { rule -> Fault? in
            switch rule.trigger {
            case .after(let count) where count == number: rule.fault
            case .every(let count) where number % count == 0: rule.fault
            default: nil
            }
        }
        rules.removeAll { rule in
            if case .after(let count) = rule.trigger { return count <= number }
            return false
        }
        schedule(after: number)
        return result
    }

    func due(atConnection number: Int) -> [Fault] {
        rules.compactMap { rule in
            if case .connection(let range) = rule.trigger, range.contains(number) { return rule.fault }
            return nil
        }
    }

    private mutating func schedule(after number: Int) {
        nextDelivery = .max
        for rule in rules {
            switch rule.trigger {
            case .after(let count) where count > number: nextDelivery = min(nextDelivery, count)
            case .every(let count): nextDelivery = min(nextDelivery, (number / count + 1) * count)
            default: break
            }
        }
    }
}
