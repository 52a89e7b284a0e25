import XMLWire

// A bound client that sends an upstream message to its own bare address acts as the service, as it would at a standard
// server: the message goes to the account's workers, and their ack comes back to the client.
extension EmulatorCore {
    func address(of pool: SenderPool) -> String { "\(pool.sender)@\(configuration.domain)" }

    /// Whether a stanza is for the workers of its sender's own account.
    func isForOwnAccount(_ stanza: Stanza, on connection: ConnectionHandler) -> Bool {
        guard let pool = connection.pool, let to = stanza.attribute("to", of: 0) else { return false }
        return stanza.string(to) == address(of: pool)
    }

    /// Hands a client's message to the account's workers, now or when one has room; it gets none itself from then on.
    func relay(_ text: Range<Int>, of stanza: Stanza, from connection: ConnectionHandler) {
        guard let pool = connection.pool else { return }
        let payload = stanza.bytes[text]
        guard let identity = payload.withUnsafeBufferPointer({ RelayedIdentity($0) }) else {
            return count(\.unexpectedStanzas, "a message to relay without message_id and from", on: connection)
        }
        connection.isSource = true
        let own = address(of: pool)
        let sequence = pool.book.relay(
            MessageBook.Special(
                id: identity.messageID,
                to: identity.from,
                stanza: StanzaAddress(from: own, to: own).stanza(around: payload, form: .defaultNamespace),
                expectsAck: true
            )
        )
        pool.sources[sequence] = connection.number
        for other in pool.connections where other !== connection { pump(other) }
        count(\.relayed, on: connection)
    }

    /// Passes a worker's ack of a relayed message to the client that sent it last.
    func relayAck(_ text: Range<Int>, of stanza: Stanza, for sequence: Int, in pool: SenderPool) {
        guard let number = pool.sources.removeValue(forKey: sequence), let source = connections[number] else { return }
        let own = address(of: pool)
        let ack = StanzaAddress(from: own, to: nil).stanza(around: stanza.bytes[text], form: .defaultNamespace)
        source.write(ack)
    }
}

/// The sender and id of an upstream message's JSON, read tolerantly; the worker judges the rest.
struct RelayedIdentity: Equatable {
    var messageID: [UInt8]
    var from: [UInt8]

    /// Parses the top level of an object; nil unless both are strings.
    init?(_ text: UnsafeBufferPointer<UInt8>) {
        var cursor = JSONCursor(text)
        var strings: [UInt8] = []
        var messageID: [UInt8]?
        var from: [UInt8]?
        guard cursor.take(UInt8(ascii: "{")) else { return nil }
        repeat {
            strings.removeAll(keepingCapacity: true)
            guard let name = cursor.string(into: &strings), cursor.take(UInt8(ascii: ":")) else { return nil }
            let key = String(decoding: strings[name], as: UTF8.self)
            guard cursor.peek == UInt8(ascii: "\"") else {
                guard cursor.skipValue() else { return nil }
                continue
            }
            guard let value = cursor.string(into: &strings) else { return nil }
            if key == "message_id" { messageID = Array(strings[value]) }
            if key == "from" { from = Array(strings[value]) }
        } while cursor.take(UInt8(ascii: ","))
        guard let messageID, let from else { return nil }
        self.messageID = messageID
        self.from = from
    }
}
