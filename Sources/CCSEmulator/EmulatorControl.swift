package import NIOCore

/// What tests do with an emulator while it runs.
extension Emulator {
    /// Counts and connections of this moment.
    package func snapshot() async throws -> EmulatorSnapshot {
        try await onLoop { $0.snapshot }
    }

    /// Waits until a condition holds; it is looked at after every change.
    ///
    /// - Parameters:
    ///   - what: What is waited for, for the error.
    ///   - limit: How long to wait.
    ///   - condition: What must hold.
    /// - Throws: ``EmulatorError`` with the counts of that moment when the time is over.
    package func wait(
        for what: String,
        limit: TimeAmount = .seconds(10),
        until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool
    ) async throws {
        guard try await !onLoop(awaiting: { $0.wait(limit, condition) }) else { return }
        let tally = await tally()
        throw EmulatorError(message: "not within \(limit.nanoseconds / 1_000_000) ms: \(what)\n\(tally.summary)")
    }

    /// Waits until every message was sent and every delivered copy acked.
    package func waitUntilComplete(limit: TimeAmount = .seconds(30)) async throws {
        try await wait(for: "every message acked", limit: limit) { $0.isComplete }
    }

    /// The ids of the messages that a connection delivered and that were not acked, oldest first.
    package func unackedIDs(on connection: Int) async throws -> [String] {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            return pool.book.unackedMessages(on: connection.slot).map { sequence in
                String(decoding: pool.id(of: sequence), as: UTF8.self)
            }
        }
    }

    /// Does something to a bound connection now, as a fault script would; the message's own faults do nothing here.
    ///
    /// - Parameters:
    ///   - fault: What happens.
    ///   - connection: Its number; nil for the connection bound first.
    /// - Throws: ``EmulatorError`` where there is no such connection.
    package func inject(_ fault: Fault, on connection: Int? = nil) async throws {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            core.apply(fault, to: nil, of: pool, on: connection)
        }
    }

    /// Writes bytes to a bound connection and keeps no book about them.
    package func inject(raw bytes: [UInt8], on connection: Int? = nil) async throws {
        try await onLoop { core in
            try core.boundConnection(connection).0.write(ByteBuffer(bytes: bytes))
        }
    }

    /// Sends a message and keeps book about it: it comes again until it is acked.
    ///
    /// A known id is another copy of that message, with the content given here.
    ///
    /// - Parameters:
    ///   - stanza: The whole stanza.
    ///   - id: The id that an ack must give, unescaped.
    ///   - to: The `to` that an ack must give, unescaped.
    ///   - expectsAck: Whether it must be acked; if not, an ack is a violation.
    ///   - connection: Which connection; nil for the one bound first.
    /// - Throws: ``EmulatorError`` where there is no such connection.
    package func inject(
        stanza: [UInt8],
        id: [UInt8],
        to: [UInt8],
        expectsAck: Bool = true,
        on connection: Int? = nil
    ) async throws {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            let special = MessageBook.Special(id: id, to: to, stanza: stanza, expectsAck: expectsAck)
            core.send(special, of: pool, on: connection)
        }
    }

    /// Sends a message of the given JSON; see ``inject(stanza:id:to:expectsAck:on:)``.
    package func inject(
        json: String,
        id: String,
        to: String,
        form: EnvelopeForm = .defaultNamespace,
        expectsAck: Bool = true,
        on connection: Int? = nil
    ) async throws {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            let special = MessageBook.Special(
                id: Array(id.utf8),
                to: Array(to.utf8),
                stanza: pool.address.stanza(around: json.utf8, form: form),
                expectsAck: expectsAck
            )
            core.send(special, of: pool, on: connection)
        }
    }

    /// What acks have taken since the last call, in seconds: from the message's delivery to its first ack read.
    ///
    /// Empty without ``EmulatorConfiguration/latencySampling``.
    package func takeLatencies() async throws -> [Double] {
        try await onLoop { $0.latency?.take() ?? [] }
    }

    /// The acks accepted since the last call, one for each copy, in the order they came.
    ///
    /// Empty without ``EmulatorConfiguration/recordsAcks``.
    package func takeAcks() async throws -> [AckRecord] {
        try await onLoop { core in
            defer { core.acks = [] }
            return core.acks
        }
    }

    /// Adds a rule to the fault script.
    package func add(_ rule: FaultRule) async throws {
        try await onLoop { core in core.schedule.add(rule, deliveries: core.deliveries) }
    }

    /// Cuts a connection, bound or not.
    ///
    /// - Parameters:
    ///   - connection: Its number.
    ///   - reset: By a TCP reset; else by closing the socket without TLS's close_notify.
    /// - Throws: ``EmulatorError`` where there is no such connection.
    package func kill(_ connection: Int, reset: Bool) async throws {
        try await onLoop { core in
            guard let connection = core.connections[connection] else {
                throw EmulatorError(message: "no connection \(connection)")
            }
            connection.cut(reset: reset)
        }
    }
}

extension EmulatorCore {
    /// A bound connection by its number, or the one bound first.
    fileprivate func boundConnection(_ number: Int?) throws -> (ConnectionHandler, SenderPool) {
        let connection =
            number.map { connections[$0] }
            ?? connections.values.filter { $0.pool != nil }
            .min { $0.number < $1.number }
        guard let connection, let pool = connection.pool else {
            throw EmulatorError(message: "connection \(number.map(String.init) ?? "any") is not bound")
        }
        return (connection, pool)
    }
}
