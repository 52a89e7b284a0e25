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
        _ plain: PlainPayload,
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> DecodedStanza {
        let answer = WantedAnswer(plain.ack, to: .json, of: stanza)
        func made(_ text: UnsafeBufferPointer<UInt8>, _ envelope: Envelope) -> DecodedStanza {
            .message(assemble(envelope, text, of: stanza, arrival, answer: answer))
        }
        func quarantined(_ reason: QuarantineReason, _ detail: StaticString) -> DecodedStanza {
            self.quarantined(reason, detail, Array(text), of: stanza, arrival)
        }
        var members: [UInt8] = []
        if envelope.messageID == nil {
            switch fallbackID(plain.messageID, of: stanza, arrival) {
            case .id(let id):
                // No ack could name it; written as JSON it could be twice as long.
                guard id.count <= AckEncoder.mostBytes else { return quarantined(.fieldTooLong, "message_id") }
                members.append(member: "message_id", id)
            case .ambiguous(let detail): return quarantined(.identityAmbiguous, detail)
            case .none: break
            }
        }
        if envelope.from == nil, plain.from == .sender, let sender = sender(of: stanza, arrival) {
            members.append(member: "from", sender.bytes)
        }
        if envelope.category == nil, let category = plain.category(of: stanza, arrival) {
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

    /// The sender's bare address, which its server vouches for, or in a room the occupant's whole one; nil for none.
    func sender(of stanza: Stanza, _ arrival: Arrival) -> JID? {
        guard let from = arrival.from, let sender = stanza.address(from) else { return nil }
        return stanza.isForGroup ? sender : sender.bare
    }

    /// A stand-in for a missing `message_id`.
    enum FallbackID {
        case none
        case id([UInt8])
        /// Several, of which any reader may take another.
        case ambiguous(StaticString)
    }

    /// The id by this rule; one that is empty counts as none.
    func fallbackID(_ rule: PlainPayload.MessageID, of stanza: Stanza, _ arrival: Arrival) -> FallbackID {
        func ids(_ name: StaticString, _ isTaken: (Int) -> Bool = { _ in true }) -> [Range<Int>?] {
            stanza.children().filter { stanza.element($0, is: name, in: XMLNamespace.stanzaIDs) && isTaken($0) }
                .map { stanza.attribute("id", of: $0) }
        }
        func id(_ range: Range<Int>??) -> FallbackID? {
            guard let range = range ?? nil, !range.isEmpty else { return nil }
            return .id(Array(stanza.bytes[range]))
        }
        if rule == .none { return .none }
        if rule == .serverID {
            // Anybody can write such an element: only our server's counts, which removes others in its name (XEP-0359).
            let own = ids("stanza-id") { stanza.attribute("by", of: $0).map { isOurServer($0, in: stanza) } ?? false }
            return own.count > 1 ? .ambiguous("more than one stanza-id of the server") : id(own.first) ?? .none
        }
        let origins = ids("origin-id")
        guard origins.count <= 1 else { return .ambiguous("more than one origin-id") }
        let found = id(origins.first) ?? (rule == .originID ? .none : id(stanza.attribute("id", of: 0)) ?? .none)
        guard rule == .senderStanzaID, case .id(let text) = found else { return found }
        return sender(of: stanza, arrival).map { .id($0.bytes + [UInt8(ascii: " ")] + text) } ?? .none
    }
}

extension PlainPayload {
    /// The category of a stanza that names none.
    func category(of stanza: Stanza, _ arrival: UpstreamCodec.Arrival) -> [UInt8]? {
        let found: [UInt8]? =
            switch categoryFrom {
            case .none: nil
            case .localpart: stanza.attribute("to", of: 0).flatMap { stanza.address($0)?.local }
            case .resource:
                arrival.from.flatMap { stanza.address($0)?.resource }
                    .map { Array($0.prefix { $0 != UInt8(ascii: "/") }) }
            case .subject:
                stanza.child("subject", in: XMLNamespace.client).map { Array(stanza.bytes[stanza.elements[$0].text]) }
            }
        if let found, !found.isEmpty { return found }
        return category.map { Array($0.utf8) }
    }
}

extension Stanza {
    /// The address in an attribute; nil if it is none.
    fileprivate func address(_ range: Range<Int>) -> JID? {
        bytes.withUnsafeBufferPointer { JID(bytes: UnsafeBufferPointer(rebasing: $0[range])) }
    }
}
