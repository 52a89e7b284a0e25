import NIOCore
import XMLWire

extension EmulatorCore {
    func received(_ stanza: Stanza, on connection: ConnectionHandler) {
        if stanza.element(0, is: "message", in: "jabber:client") {
            guard let payload = stanza.child("gcm", in: "google:mobile:data"),
                stanza.elements[payload].end == payload + 1
            else { return unexpected("a message without a gcm element, or with elements in it", connection) }
            let text = stanza.elements[payload].text
            if isForOwnAccount(stanza, on: connection), !isAck(stanza, text) {
                relay(text, of: stanza, from: connection)
            } else {
                judge(stanza, text, on: connection)
            }
        } else if stanza.element(0, is: "iq", in: "jabber:client") {
            answer(stanza, on: connection)
        } else if !stanza.element(0, is: "presence", in: "jabber:client") {
            // The hosted service ignored presences, and some clients send one.
            unexpected("an unknown stanza", connection)
        }
    }

    private func isAck(_ stanza: Stanza, _ text: Range<Int>) -> Bool {
        stanza.bytes.withUnsafeBufferPointer { reader.read(UnsafeBufferPointer(rebasing: $0[text])) } == .ack
    }

    private func answer(_ stanza: Stanza, on connection: ConnectionHandler) {
        let type = stanza.attribute("type", of: 0).map { stanza.string($0) }
        switch type {
        case "get" where stanza.child("ping", in: "urn:xmpp:ping") != nil:
            counts.pings += 1
            connection.write(ServerStanzas.result(for: stanza))
            changed()
        case "set" where stanza.child("session", in: Namespace.session) != nil:
            connection.write(ServerStanzas.result(for: stanza))
        case "get", "set":
            unexpected("an iq that nothing asked for", connection)
            connection.write(ServerStanzas.notSupported(stanza))
        default:
            // Results and errors of our pings.
            break
        }
    }

    private func judge(_ stanza: Stanza, _ range: Range<Int>, on connection: ConnectionHandler) {
        guard let pool = connection.pool else { return }
        let reading = stanza.bytes.withUnsafeBufferPointer { reader.read(UnsafeBufferPointer(rebasing: $0[range])) }
        if case .malformed(let problem) = reading {
            counts.malformedAcks += 1
            violation("connection \(connection.number): a malformed ack: \(problem.rawValue)")
            refuse(stanza.bytes[range], code: 400, reason: "InvalidJson: \(problem.rawValue)", on: connection)
            return
        }
        let (sequence, isSender) = reader.withFields { id, to -> (Int?, Bool) in
            if let relayed = pool.book.special(withID: id), pool.book.isOutstanding(relayed, on: connection.slot) {
                return (relayed, pool.book.special(relayed).to.elementsEqual(to))
            }
            if let sequence = pool.generator.sequence(ofID: id), pool.book.isKnown(sequence) {
                return (sequence, pool.generator.isSender(to, of: sequence))
            }
            guard let sequence = pool.book.special(withID: id) else { return (nil, false) }
            return (sequence, pool.book.special(sequence).to.elementsEqual(to))
        }
        guard let sequence, isSender else {
            counts.unknownAcks += 1
            let what = sequence == nil ? "an id that was never sent" : "another `to` than the message's from"
            violation("connection \(connection.number): an ack for \(what)")
            return refuse(stanza.bytes[range], code: 406, reason: ServerStanzas.notHere, on: connection)
        }
        switch pool.book.ack(sequence, on: connection.slot) {
        case .accepted:
            latency?.acked(sequence)
            if let ackFile { ackFile.record(pool.id(of: sequence), from: pool.token(of: sequence), for: pool.sender) }
            if configuration.recordsAcks { acks.append(AckRecord(id: pool.id(of: sequence))) }
            if sequence < 0 { relayAck(range, of: stanza, for: sequence, in: pool) }
            return changed()
        case .double:
            counts.doubleAcks += 1
            violation("connection \(connection.number): a double ack")
        case .wrongConnection:
            counts.wrongConnectionAcks += 1
            violation("connection \(connection.number): an ack for a copy that another connection delivered")
        case .unwanted:
            counts.unwantedAcks += 1
            violation("connection \(connection.number): an ack for what must not be acked")
        case .unknown:
            counts.unknownAcks += 1
            violation("connection \(connection.number): an ack for an id that was never sent")
        }
        refuse(stanza.bytes[range], code: 406, reason: ServerStanzas.notHere, on: connection)
    }

    private func refuse(
        _ text: some Collection<UInt8>,
        code: Int,
        reason: String,
        on connection: ConnectionHandler
    ) {
        connection.write(ByteBuffer(bytes: ServerStanzas.refusal(of: text, code: code, reason: reason)))
    }

    private func unexpected(_ what: String, _ connection: ConnectionHandler) {
        counts.unexpectedStanzas += 1
        violation("connection \(connection.number): \(what)")
    }
}
