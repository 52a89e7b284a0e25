/// One thing the emulator does that real servers and networks did.
package enum Fault: Sendable, Equatable {
    // To the message whose delivery set it off.
    /// Delivers the message twice on the connection.
    case duplicate
    /// Delivers the message on another connection as well, at once.
    case redeliver
    /// Delivers another message with the same id right behind it.
    case conflict
    /// Writes half of the stanza, waits, and writes the rest.
    case torn(milliseconds: Int)
    /// Writes the stanza byte by byte.
    case bytewise
    /// Closes at once behind the message, not reading its ack.
    case closeBeforeAck

    // To the connection that delivered it.
    /// Ends the stream in order.
    case close
    /// Cuts the connection with a TCP reset.
    case reset
    /// Closes the socket without the stream's end and without TLS's close_notify.
    case cut
    /// CONNECTION_DRAINING as a control message; the server closes later.
    case drain
    /// CONNECTION_DRAINING as a nack; the server closes later.
    case drainNack
    /// Neither reads nor writes for a while.
    case stall(milliseconds: Int)
    /// Goes on writing but reads nothing, so no ack, for a while.
    case slowAcks(milliseconds: Int)
    /// Sends nothing and answers nothing any more.
    case halfDead
    /// Sends XML that a receiver must refuse; nil takes the next one of the list.
    case badXML(String?)
    /// Sends an odd message; nil takes the next one of the list.
    case oddJSON(String?)
    /// Ends the stream with this stream error.
    case streamError(String)
    /// Sends a stanza error for the message, as for an ack that was refused.
    case stanzaError
    /// Sends a nack with this code.
    case nack(String)
    /// Sends a single space.
    case whitespace
    /// Sends an XEP-0199 ping.
    case ping
    /// Sends messages, presences and stanzas that the receiver must ignore.
    case noise

    // To a connection that is just being made.
    /// Refuses the credentials.
    case refuse
    /// Closes after the SASL success.
    case closeAfterAuth
    /// Closes after the bind result.
    case closeAfterBind
    /// Never answers anything.
    case mute

    /// Whether it belongs to a `connection` trigger and to no other.
    package var isForNegotiation: Bool {
        switch self {
        case .refuse, .closeAfterAuth, .closeAfterBind, .mute: true
        default: false
        }
    }
}

/// When a fault happens.
package enum FaultTrigger: Sendable, Equatable {
    /// Once, with the delivery of this number, counted over all connections from 1.
    case after(Int)
    /// With every delivery whose number this divides.
    case every(Int)
    /// With the connections of these numbers, counted from 1 as they are accepted.
    case connection(ClosedRange<Int>)
}

/// One line of a fault script.
package struct FaultRule: Sendable, Equatable {
    /// When.
    package var trigger: FaultTrigger
    /// What.
    package var fault: Fault

    /// A rule that does this then.
    package init(_ trigger: FaultTrigger, _ fault: Fault) {
        self.trigger = trigger
        self.fault = fault
    }
}

/// Which faults are due: a pure count of deliveries and connections.
struct FaultSchedule {
    private var rules: [FaultRule] = []
    /// The least delivery number that may set something off.
    private var nextDelivery = Int.max

    init(_ rules: [FaultRule]) {
        for rule in rules { add(rule, deliveries: 0) }
    }

    /// Adds a rule when this many deliveries were made.
    ///
    /// An `after` or `connection` that has passed never happens.
    mutating func add(_ rule: FaultRule, deliveries: Int) {
        rules.append(rule)
        schedule(after: deliveries)
    }

    /// Whether the delivery of this number may set off faults.
    func isDue(atDelivery number: Int) -> Bool { number >= nextDelivery }

    /// The faults that the delivery of this number sets off; numbers must not go down.
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

    /// The faults that the connection of this number meets.
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
