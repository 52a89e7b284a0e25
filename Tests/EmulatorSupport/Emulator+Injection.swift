import NIOCore

@testable package import CCSEmulator

// What tests do to a running emulator.
extension Emulator {
    /// The ids of a connection's delivered and unacked messages, oldest first.
    package func unackedIDs(on connection: Int) async throws -> [String] {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            return pool.book.unackedMessages(on: connection.slot).map { sequence in
                String(decoding: pool.id(of: sequence), as: UTF8.self)
            }
        }
    }

    /// Injects a fault into a bound connection, by default the one bound first; those of a single message do nothing.
    package func inject(_ fault: Fault, on connection: Int? = nil) async throws {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            core.apply(fault, to: nil, of: pool, on: connection)
        }
    }

    package func inject(raw bytes: [UInt8], on connection: Int? = nil) async throws {
        try await onLoop { try $0.boundConnection(connection).0.write(ByteBuffer(bytes: bytes)) }
    }

    /// Sends a message on a bound connection, by default the one bound first, and redelivers it until acked.
    ///
    /// An ack must give `id` and `to`, unescaped; without `expectsAck` an ack is a violation. A known id means another
    /// copy of that message, with the content given here.
    package func inject(
        stanza: [UInt8],
        id: [UInt8],
        to: [UInt8],
        expectsAck: Bool = true,
        on connection: Int? = nil
    ) async throws {
        try await send(on: connection) { _ in
            MessageBook.Special(id: id, to: to, stanza: stanza, expectsAck: expectsAck)
        }
    }

    /// The same for a message with this JSON.
    package func inject(
        json: String,
        id: String,
        to: String,
        form: EnvelopeForm = .defaultNamespace,
        expectsAck: Bool = true,
        on connection: Int? = nil
    ) async throws {
        try await send(on: connection) { address in
            let stanza = address.stanza(around: json.utf8, form: form)
            return MessageBook.Special(id: Array(id.utf8), to: Array(to.utf8), stanza: stanza, expectsAck: expectsAck)
        }
    }

    private func send(
        on connection: Int?,
        _ special: @escaping @Sendable (StanzaAddress) -> MessageBook.Special
    ) async throws {
        try await onLoop { core in
            let (connection, pool) = try core.boundConnection(connection)
            core.send(special(pool.address), of: pool, on: connection)
        }
    }

    /// The acks accepted since the last call, one for each copy, in order.
    package func takeAcks() async throws -> [AckRecord] {
        try await onLoop { core in
            defer { core.acks = [] }
            return core.acks
        }
    }

    package func add(_ rule: FaultRule) async throws { try await onLoop { $0.rules.append(rule) } }

    /// Cuts a connection, bound or not, by a TCP reset or by closing the socket without TLS's close_notify.
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
    /// A bound connection by number, or the one bound first.
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
