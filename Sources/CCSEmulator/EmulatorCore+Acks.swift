import XMLWire

extension EmulatorCore {
    func received(_ stanza: Stanza, on connection: ConnectionHandler) {
        if stanza.element(0, is: "message", in: "jabber:client") {
            guard let payload = stanza.child("gcm", in: "google:mobile:data"),
                stanza.elements[payload].end == payload + 1
            else {
                let what = "a message without a gcm element, or with elements in it"
                return count(\.unexpectedStanzas, what, on: connection)
            }
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
            count(\.unexpectedStanzas, "an unknown stanza", on: connection)
        }
    }

    private func isAck(_ stanza: Stanza, _ text: Range<Int>) -> Bool {
        stanza.bytes.withUnsafeBufferPointer { reader.read(UnsafeBufferPointer(rebasing: $0[text])) } == .ack
    }

    private func answer(_ stanza: Stanza, on connection: ConnectionHandler) {
        let type = stanza.attribute("type", of: 0).map { stanza.string($0) }
        switch type {
        case "get" where stanza.child("ping", in: "urn:xmpp:ping") != nil:
            connection.write(ServerStanzas.result(for: stanza))
            count(\.pings, on: connection)
        case "set" where stanza.child("session", in: Namespace.session) != nil:
            connection.write(ServerStanzas.result(for: stanza))
        case "get", "set":
            count(\.unexpectedStanzas, "an iq that nothing asked for", on: connection)
            connection.write(ServerStanzas.notSupported(stanza))
        // Results and errors of our pings.
        default: break
        }
    }

    private func judge(_ stanza: Stanza, _ range: Range<Int>, on connection: ConnectionHandler) {
        guard let pool = connection.pool else { return }
        let reading = stanza.bytes.withUnsafeBufferPointer { reader.read(UnsafeBufferPointer(rebasing: $0[range])) }
        if case .malformed(let problem) = reading {
            count(\.malformedAcks, "a malformed ack: \(problem.rawValue)", on: connection)
            let reason = "InvalidJson: \(problem.rawValue)"
            return connection.write(ServerStanzas.refusal(of: stanza.bytes[range], code: 400, reason: reason))
        }
        let (sequence, isSender) = reader.withFields { id, to -> (Int?, Bool) in
            let special = pool.book.special(withID: id)
            let relayed = special.flatMap { pool.book.isOutstanding($0, on: connection.slot) ? $0 : nil }
            let sequence = relayed ?? pool.sequence(ofID: id)
            return (sequence, sequence.map { pool.isSender(to, of: $0) } ?? false)
        }
        let refusal = { ServerStanzas.refusal(of: stanza.bytes[range], code: 406, reason: ServerStanzas.notHere) }
        guard let sequence, isSender else {
            let what = sequence == nil ? "an id that was never sent" : "another `to` than the message's from"
            count(\.unknownAcks, "an ack for \(what)", on: connection)
            return connection.write(refusal())
        }
        switch pool.book.ack(sequence, on: connection.slot) {
        case .accepted:
            latency?.acked(sequence)
            ackFile?.record(ack: pool.id(of: sequence), from: pool.token(of: sequence), for: pool.sender)
            if configuration.recordsAcks { acks.append(AckRecord(id: pool.id(of: sequence))) }
            if sequence < 0 { relayAck(range, of: stanza, for: sequence, in: pool) }
            return changed()
        case .double: count(\.doubleAcks, "a double ack", on: connection)
        case .wrongConnection:
            count(\.wrongConnectionAcks, "an ack for a copy that another connection delivered", on: connection)
        case .unwanted: count(\.unwantedAcks, "an ack for what must not be acked", on: connection)
        case .unknown: count(\.unknownAcks, "an ack for an id that was never sent", on: connection)
        }
        connection.write(refusal())
    }
}
