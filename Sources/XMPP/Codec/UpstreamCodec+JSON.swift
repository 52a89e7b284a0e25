import Vocabulary
import XMLWire

// Messages in a JSON container (XEP-0335), as plain XMPP apps send them.
extension UpstreamCodec {
    /// Makes the message of a container that holds no ack, nack or control message.
    ///
    /// Fallbacks for missing members are put in front of the others, and the result is read as if the device had sent
    /// it. A present member, however useless, has no fallback: the device meant something else.
    mutating func read(
        _ envelope: Envelope,
        _ text: UnsafeBufferPointer<UInt8>,
        _ json: JSONPayload,
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> DecodedStanza {
        let answer = WantedAnswer(json.ack, to: stanza)
        func made(_ text: UnsafeBufferPointer<UInt8>, _ envelope: Envelope) -> DecodedStanza {
            .message(assemble(envelope, text, of: stanza, arrival, answer: answer))
        }
        func quarantined(_ reason: QuarantineReason, _ detail: StaticString) -> DecodedStanza {
            self.quarantined(reason, detail, Array(text), of: stanza, arrival)
        }
        var members: [UInt8] = []
        if envelope.messageID == nil {
            guard !UpstreamCodec.hasTwoOriginIDs(stanza) || json.messageID == .none else {
                return quarantined(.identityAmbiguous, "more than one origin-id")
            }
            if let id = json.messageID.id(of: stanza) {
                // No ack could name it; written as JSON it could be six times as long.
                guard id.count <= AckEncoder.mostBytes else { return quarantined(.fieldTooLong, "message_id") }
                members.append(member: "message_id", stanza.bytes[id])
            }
        }
        if envelope.from == nil, json.from == .sender, let from = arrival.from, let address = JID(stanza.string(from)) {
            members.append(member: "from", address.bare.description.utf8)
        }
        if envelope.category == nil, let category = json.category(of: stanza) {
            members.append(member: "category", category)
        }
        guard !members.isEmpty else { return made(text, envelope) }
        let completed = UpstreamCodec.completed(text, with: members, isEmpty: reader.scanner.members.isEmpty)
        return completed.withUnsafeBufferPointer { completed in
            guard let envelope = try? reader.read(completed) else {
                return quarantined(.payloadNotJSON, "2^31 bytes or more")
            }
            return made(completed, envelope)
        }
    }

    /// An object's text with further members in front.
    private static func completed(_ text: UnsafeBufferPointer<UInt8>, with members: [UInt8], isEmpty: Bool) -> [UInt8] {
        let open = (text.firstIndex(of: UInt8(ascii: "{")) ?? 0) + 1
        var completed: [UInt8] = []
        completed.reserveCapacity(text.count + members.count)
        completed += text[..<open]
        // Each ends with a comma, which the last member must not have.
        completed += isEmpty ? members.dropLast() : members[...]
        completed += text[open...]
        return completed
    }

    /// Whether an element is a payload of either form.
    static func isPayload(_ index: Int, in stanza: Stanza) -> Bool {
        stanza.element(index, is: "gcm", in: XMLNamespace.payload)
            || stanza.element(index, is: "json", in: XMLNamespace.json)
    }

    private static func hasTwoOriginIDs(_ stanza: Stanza) -> Bool {
        stanza.children().count { stanza.element($0, is: "origin-id", in: XMLNamespace.stanzaIDs) } > 1
    }
}

extension JSONPayload.MessageID {
    /// The range of the fallback id in the stanza; nil if there is none or it is empty.
    fileprivate func id(of stanza: Stanza) -> Range<Int>? {
        guard self != .none else { return nil }
        if let element = stanza.child("origin-id", in: XMLNamespace.stanzaIDs),
            let id = stanza.attribute("id", of: element), !id.isEmpty
        {
            return id
        }
        guard self == .stanzaID, let id = stanza.attribute("id", of: 0), !id.isEmpty else { return nil }
        return id
    }
}

extension JSONPayload {
    /// The category of a stanza whose payload names none.
    fileprivate func category(of stanza: Stanza) -> [UInt8]? {
        if categoryFrom == .localpart, let to = stanza.attribute("to", of: 0),
            let local = JID(stanza.string(to))?.local
        {
            return local
        }
        return category.map { Array($0.utf8) }
    }
}

extension [UInt8] {
    /// Appends a string member of a JSON object, and a comma.
    fileprivate mutating func append(member name: StaticString, _ text: some Sequence<UInt8>) {
        append(UInt8(ascii: "\""))
        append(xml: name)
        append(contentsOf: "\":\"".utf8)
        Array(text).withUnsafeBytes { JSONEscape.string.append($0, to: &self) }
        append(contentsOf: "\",".utf8)
    }
}
