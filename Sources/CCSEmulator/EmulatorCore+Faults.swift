import NIOCore

extension EmulatorCore {
    func deliver(_ sequence: Int, isFirst: Bool, on connection: ConnectionHandler, faults: [Fault]) {
        guard let pool = connection.pool else { return }
        var bytes = ByteBuffer()
        append(sequence, isFirst: isFirst, on: connection, to: &bytes)
        switch faults.first(where: { if case .torn = $0 { true } else { $0 == .bytewise } }) {
        case .torn(let milliseconds):
            let place = Int(SplitMix.mix(UInt64(deliveries)) % UInt64(max(1, bytes.readableBytes)))
            connection.writeTorn(bytes, at: place, after: .milliseconds(Int64(milliseconds)))
        case .bytewise: for byte in bytes.readableBytesView { connection.write([byte]) }
        default: connection.write(bytes)
        }
        for fault in faults { apply(fault, to: sequence, of: pool, on: connection) }
        changed()
    }

    /// Injects a fault into a bound connection, or into the message just delivered on it.
    func apply(_ fault: Fault, to sequence: Int?, of pool: SenderPool, on connection: ConnectionHandler) {
        switch fault {
        case .duplicate, .redeliver, .conflict:
            if let sequence { again(fault, sequence, of: pool, on: connection) }
        case .torn, .bytewise, .refuse, .closeAfterAuth, .closeAfterBind, .mute:
            break
        case .closeBeforeAck: connection.close()
        case .close: connection.end()
        case .reset: connection.cut(reset: true)
        case .cut: connection.cut(reset: false)
        case .drain: drain(connection, with: ServerStanzas.draining)
        case .drainNack:
            let id = sequence.map { self.id(of: $0, in: pool) } ?? "none"
            drain(connection, with: ServerStanzas.nack(code: "CONNECTION_DRAINING", id: id, sender: "FAKE-none"))
        case .stall(let milliseconds):
            connection.pause(reading: true, writing: true, for: .milliseconds(Int64(milliseconds)))
        case .slowAcks(let milliseconds):
            connection.pause(reading: true, writing: false, for: .milliseconds(Int64(milliseconds)))
        case .halfDead: connection.isSilent = true
        case .badXML(let name): spoil(connection, name)
        case .oddJSON(let name): sendOddity(name, of: pool, on: connection)
        case .streamError(let condition): connection.end(error: condition)
        case .stanzaError:
            let text = #"{"to":"FAKE-none","message_id":"none","message_type":"ack"}"#
            connection.write(ServerStanzas.refusal(of: text.utf8, code: 406, reason: ServerStanzas.notHere))
        case .nack(let code):
            let id = sequence.map { self.id(of: $0, in: pool) } ?? "none"
            connection.write(ServerStanzas.nack(code: code, id: id, sender: "FAKE-none"))
        case .whitespace: connection.write(" ")
        case .ping: connection.write(ServerStanzas.ping(id: deliveries))
        case .noise: connection.write(ServerStanzas.noise(address: pool.address))
        }
    }

    /// Sends a message that is not part of the load; see ``Emulator/inject(_:on:)``.
    func send(_ special: MessageBook.Special, of pool: SenderPool, on connection: ConnectionHandler) {
        let sequence = special.id.withUnsafeBufferPointer { pool.sequence(ofID: $0) }
        let entry = sequence ?? pool.book.add(special)
        deliveries += 1
        pool.book.delivered(entry, on: connection.slot, isFirst: sequence == nil && special.expectsAck)
        connection.write(special.stanza)
        changed()
    }

    private func again(_ fault: Fault, _ sequence: Int, of pool: SenderPool, on connection: ConnectionHandler) {
        guard let target = fault == .redeliver ? pool.other(than: connection) : connection else { return }
        var bytes = ByteBuffer()
        if fault == .conflict, sequence >= 0 {
            deliveries += 1
            pool.book.delivered(sequence, on: target.slot, isFirst: false)
            pool.generator.append(sequence, conflicting: true, to: &bytes)
        } else {
            append(sequence, isFirst: false, on: target, to: &bytes)
        }
        target.write(bytes)
    }

    private func drain(_ connection: ConnectionHandler, with stanza: [UInt8]) {
        connection.write(stanza)
        guard connection.phase == .bound, let pool = connection.pool else { return }
        let isAlone = pool.connections.allSatisfy { $0 === connection || $0.phase != .bound }
        connection.phase = .draining(messages: isAlone ? configuration.drainMessages : 0)
        if configuration.closesDrained {
            eventLoop.assumeIsolated().scheduleTask(in: configuration.drainTimeout) { connection.end() }
        }
        finishDraining(connection)
    }

    private func spoil(_ connection: ConnectionHandler, _ name: String?) {
        let names = HostileXML.names
        let next = names[hostilities % names.count]
        hostilities += 1
        connection.expectsBreak = true
        // Nothing after this can be read, so deliveries stop before this write. The peer must end the connection.
        connection.phase = .ending
        connection.write(HostileXML.named(name ?? next) ?? [])
        eventLoop.assumeIsolated().scheduleTask(in: configuration.drainTimeout) { connection.close() }
    }

    private func sendOddity(_ name: String?, of pool: SenderPool, on connection: ConnectionHandler) {
        oddities += 1
        let odd = name.flatMap(OddMessage.named) ?? OddMessage.all[(oddities - 1) % OddMessage.all.count]
        let forms = configuration.load.forms
        let instance = odd.instance(
            id: "\(configuration.load.effectivePrefix)-odd-\(pool.sender)-\(oddities)",
            token: pool.generator.token(device: oddities % configuration.load.devices),
            address: pool.address,
            form: forms[oddities % forms.count]
        )
        send(instance, of: pool, on: connection)
    }

    private func id(of sequence: Int, in pool: SenderPool) -> String {
        sequence >= 0 ? pool.generator.id(sequence) : "special"
    }
}
