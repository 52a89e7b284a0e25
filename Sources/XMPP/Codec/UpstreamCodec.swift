import Digests
package import Vocabulary
package import XMLWire

/// Reads the stanzas of one connection as CCS traffic; its scratch storage is reused from stanza to stanza.
///
/// **The order of decisions**, for stanzas that are odd in more than one way:
///
/// 1. not a `{jabber:client}message`: ``DecodedStanza/other``;
/// 2. `type="error"`: ``DecodedStanza/error(_:)``, whatever else it holds or echoes;
/// 3. none of the configured forms, each a direct child of its own (``PayloadForm``): ``DecodedStanza/other``;
/// 4. a `from` that is not trusted: ``DecodedStanza/untrusted``. Absent is trusted, empty is not. For a component absent
///    is not either, nor is a `to` at another domain: a server may hand us another component's stanzas;
/// 5. the payload can't be read (several, an empty one, an element inside, not one JSON object): quarantined, not acked;
/// 6. in `gcm` or `json`, `message_type` is `ack`, `nack` or `control`: that kind, if all repetitions are. From our own account through a
///    standard server it is our own stanza coming back: ``DecodedStanza/untrusted``;
/// 7. `message_id` or `from` repeats, `message_id` unusable, `from` unusable: quarantined, not acked;
/// 8. and acked: `message_id`, then `from` that no `text` can hold; either too long; another key repeats;
///    `message_type` unknown; `category` unusable, not storable, too long: quarantined;
/// 9. and anything to be acked: an ack that would be too long: quarantined, not acked;
/// 10. otherwise a message, or a receipt.
package struct UpstreamCodec: Sendable {
    /// The detail in quarantine of what has no ack that its server takes.
    package static let ackTooLarge: StaticString =
        "message_id and from make an ack that is longer than the server takes"

    let settings: StreamSettings

    private var trusted: TrustedSenders
    private let component: ComponentDomain?
    var reader = EnvelopeReader()
    var storage = MessageStorage()
    /// The addresses whose delays are believed.
    private(set) var delaySources: [JID]
    /// How plain messages are read; nil if all come as `gcm`.
    let plain: PlainPayload?
    /// The preferred form, which is looked for first and without a detour if it is `gcm` or `json`.
    private let first: PayloadForm
    package private(set) var acks: AckEncoder
    /// The state after `sender_id ‖ 0x00`.
    let keyPrefix: SHA256

    package init(_ settings: StreamSettings) {
        self.settings = settings
        component = settings.component
        // A component's server is the domain above its own.
        let above = settings.domain.split(separator: ".", maxSplits: 1).last.map(String.init) ?? ""
        delaySources = [JID(component == nil ? settings.domain : above)].compactMap { $0 }
        trusted = TrustedSenders(settings)
        acks = AckEncoder(settings)
        plain = if case .plain(let plain) = settings.payload { plain } else { nil }
        first = plain.flatMap(\.forms.first) ?? .gcm
        var prefix = SHA256()
        Array(settings.senderID.utf8).withUnsafeBytes { prefix.update($0) }
        prefix.update(0)
        keyPrefix = prefix
    }

    /// Sets our address, whose bare form is trusted unless a component's, and the server's limits, which bound acks.
    package mutating func bound(to address: JID, _ limits: ServerLimits = ServerLimits()) {
        if component == nil { trusted.insert(own: address) }
        delaySources.append(address.bare)
        acks.limit = min(AckEncoder.mostBytes, limits.stanza ?? .max)
    }

    /// Reads one stanza, lent for the call.
    ///
    /// It was received at this Unix time in microseconds, and at this time of a monotonic clock in nanoseconds; the
    /// bytes that follow it in the same read share memory with its message. An archive says when it stored it.
    package mutating func decode(
        _ stanza: Stanza,
        receivedAt: Int64,
        parsedAt: UInt64,
        following: Int = 0,
        storedAt: Timestamp? = nil
    ) -> DecodedStanza {
        guard stanza.elementCount > 0, stanza.element(0, is: "message", in: XMLNamespace.client) else { return .other }
        if let type = stanza.attribute("type", of: 0), stanza.equals(type, "error") {
            return .error(StanzaError(stanza))
        }
        let child: Int? =
            switch first {
            case .gcm: stanza.child("gcm", in: XMLNamespace.payload)
            case .json: stanza.child("json", in: XMLNamespace.json)
            case .body, .stanza, .event: nil
            }
        guard let payload = child else { return other(stanza, receivedAt, parsedAt, following, storedAt) }
        guard let arrival = arrival(of: stanza, receivedAt, parsedAt, following, storedAt) else { return .untrusted }
        return read(payload, as: first, of: stanza, arrival)
    }

    /// Reads a stanza that does not have the preferred form, or has one that is not looked for there.
    private mutating func other(
        _ stanza: Stanza,
        _ receivedAt: Int64,
        _ parsedAt: UInt64,
        _ following: Int,
        _ storedAt: Timestamp?
    ) -> DecodedStanza {
        guard let plain else { return .other }
        for form in plain.forms {
            guard let element = form.element(in: stanza) else { continue }
            guard let arrival = arrival(of: stanza, receivedAt, parsedAt, following, storedAt) else {
                return .untrusted
            }
            return switch form {
            case .gcm, .json: read(element, as: form, of: stanza, arrival)
            case .body: .message(message(body(of: stanza, plain), plain, as: form, of: stanza, arrival))
            case .stanza: .message(message(whole(stanza), plain, as: form, of: stanza, arrival))
            case .event: event(element, plain, of: stanza, arrival)
            }
        }
        return .other
    }

    /// A stanza's arrival; nil if its sender is not trusted, or it is not for us.
    @inline(__always)
    private func arrival(
        of stanza: Stanza,
        _ receivedAt: Int64,
        _ parsedAt: UInt64,
        _ following: Int,
        _ storedAt: Timestamp?
    ) -> Arrival? {
        var arrival = Arrival(
            from: stanza.attribute("from", of: 0),
            receivedAt: receivedAt,
            parsedAt: parsedAt,
            following: following,
            delay: storedAt
        )
        if let from = arrival.from, !isTrusted(from, in: stanza) { return nil }
        if component != nil, !isForComponent(stanza, &arrival) { return nil }
        // A message and its payload are two elements: only a third one can be the server's delay.
        if storedAt == nil, stanza.elementCount > 2 { arrival.delay = delay(in: stanza) }
        return arrival
    }

    /// A stanza's addresses that a message keeps, its arrival on both clocks, and the size of the rest of the read.
    struct Arrival {
        var from: Range<Int>?
        var to: Range<Int>?
        var receivedAt: Int64
        var parsedAt: UInt64
        /// The bytes of the same read after it.
        var following: Int
        /// The time at which the server stored it (XEP-0203).
        var delay: Timestamp?
    }

    func note(_ arrival: Arrival, in message: inout IncomingMessage) {
        message.sender = settings.index
        message.receivedAt = arrival.receivedAt
        message.parsedAt = arrival.parsedAt
    }

    func isTrusted(_ from: Range<Int>, in stanza: Stanza) -> Bool {
        stanza.bytes.withUnsafeBufferPointer { trusted.contains(UnsafeBufferPointer(rebasing: $0[from])) }
    }

    /// Whether there is somebody to ack to and the stanza is for our domain, as without a `to` (RFC 6120, 8.1.1.1).
    private func isForComponent(_ stanza: Stanza, _ arrival: inout Arrival) -> Bool {
        guard arrival.from != nil else { return false }
        guard let to = stanza.attribute("to", of: 0) else { return true }
        arrival.to = to
        return stanza.bytes.withUnsafeBufferPointer {
            component?.parts(of: UnsafeBufferPointer(rebasing: $0[to])) != nil
        }
    }

    /// Whether a standard server returns what our own account sent, as it does with a stanza without `to`.
    private func isEcho(_ from: Range<Int>?, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard settings.dialect == .xmpp, let from else { return false }
        return trusted.isOwn(UnsafeBufferPointer(rebasing: bytes[from]))
    }

    // Inlined, as a function with one caller is: the other caller is rare.
    @inline(__always)
    private mutating func read(
        _ payload: Int,
        as form: PayloadForm,
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> DecodedStanza {
        let element = stanza.element(at: payload)
        let isContainer = form == .json
        if let detail = misplacement(of: element, at: payload, isContainer, in: stanza) {
            return quarantined(.payloadMisplaced, detail, UpstreamCodec.outline(of: stanza), of: stanza, arrival)
        }
        func unreadable(_ detail: StaticString) -> DecodedStanza {
            quarantined(.payloadNotJSON, detail, Array(stanza.bytes[element.text]), of: stanza, arrival)
        }
        return stanza.bytes.withUnsafeBufferPointer { bytes -> DecodedStanza in
            let text = UnsafeBufferPointer(rebasing: bytes[element.text])
            let envelope: Envelope?
            do throws(JSONSyntaxError) {
                envelope = try reader.read(text)
            } catch {
                return unreadable(error.detail)
            }
            guard let envelope else { return unreadable("not an object") }
            if envelope.isSignal {
                return isEcho(arrival.from, in: bytes) ? .untrusted : signal(envelope.type, isContainer, in: text)
            }
            if isContainer, let plain { return read(envelope, text, plain, of: stanza, arrival) }
            return .message(assemble(envelope, text, of: stanza, arrival))
        }
    }

    /// A copy for quarantine of a stanza whose payload can't be read.
    func quarantined(
        _ reason: QuarantineReason,
        _ detail: StaticString,
        _ content: [UInt8],
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> DecodedStanza {
        let from = arrival.from.map { stanza.bytes[$0] } ?? []
        let raw = ByteSpan(start: 0, count: stanza.raw.count)
        var message = IncomingMessage(kind: .malformed, bytes: stanza.raw + from + content, stanza: raw)
        if arrival.from != nil { message.stanzaFrom = ByteSpan(start: stanza.raw.count, count: from.count) }
        let start = stanza.raw.count + from.count
        message.payload = content.isEmpty ? nil : ByteSpan(start: start, count: content.count)
        message.quarantine = reason
        message.quarantineDetail = detail
        note(arrival, in: &message)
        return .message(message)
    }

    /// The payload's children and their contents, without anything that a server may write differently when it sends
    /// the stanza again: prefixes, quotes, the order of attributes, and everything beside the payload.
    ///
    /// Never much longer than the stanza: namespaces are left out. The marks between the parts are bytes that no XML
    /// text holds. Empty if the children are.
    private static func outline(of stanza: Stanza) -> [UInt8] {
        var outline: [UInt8] = []
        outline.reserveCapacity(stanza.raw.count)
        let payloads = stanza.children().filter { isPayload($0, in: stanza) }
        let isEmpty = payloads.allSatisfy { child in
            let element = stanza.elements[child]
            return element.text.isEmpty && element.end <= child + 1
        }
        guard !isEmpty else { return [] }
        for child in payloads {
            for element in stanza.elements[child..<max(stanza.elements[child].end, child + 1)] {
                outline += [0, UInt8(truncatingIfNeeded: element.depth)]
                outline += stanza.bytes[element.name]
                let attributes = stanza.attributes[element.attributes]
                    .sorted { stanza.bytes[$0.name].lexicographicallyPrecedes(stanza.bytes[$1.name]) }
                for attribute in attributes {
                    outline.append(1)
                    outline += stanza.bytes[attribute.name]
                    outline.append(2)
                    outline += stanza.bytes[attribute.value]
                }
                outline.append(3)
                outline += stanza.bytes[element.text]
            }
        }
        return outline
    }

    /// Why the payload can't be read from this element; nil if it can.
    private func misplacement(
        of element: Stanza.Element,
        at payload: Int,
        _ isContainer: Bool,
        in stanza: Stanza
    ) -> StaticString? {
        if element.end > payload + 1 { return isContainer ? "an element inside json" : "an element inside gcm" }
        // The payload is the first of its kind; a `gcm` may also stand before a container.
        var next = isContainer ? 1 : element.end
        let end = stanza.element(at: 0).end
        while next < end {
            if next != payload, stanza.element(next, is: "gcm", in: XMLNamespace.payload) {
                return isContainer ? "both gcm and json" : "more than one gcm"
            }
            if isContainer, next != payload, stanza.element(next, is: "json", in: XMLNamespace.json) {
                return "more than one json"
            }
            next = max(stanza.element(at: next).end, next + 1)
        }
        guard element.text.isEmpty else { return nil }
        return isContainer ? "an empty json" : "an empty gcm"
    }

    private mutating func signal(
        _ type: Envelope.MessageType,
        _ isContainer: Bool,
        in text: UnsafeBufferPointer<UInt8>
    ) -> DecodedStanza {
        switch type {
        // A device has no say over the connection: only a CCS can announce that it closes it.
        case .nack where isContainer: .nack(.unknown)
        case .control where isContainer: .control(.unknown)
        case .nack: .nack(reader.string("error", in: text).flatMap { NackCode(rawValue: $0) } ?? .unknown)
        case .control:
            .control(reader.string("control_type", in: text).flatMap { ControlType(rawValue: $0) } ?? .unknown)
        case .ack, .absent, .receipt, .unknown: .ack
        }
    }

    /// Writes the members that ``EnvelopeReader`` classed as others, for ``extra``.
    mutating func writeExtra(_ text: UnsafeBufferPointer<UInt8>, _ delay: Timestamp?, into writer: inout SpanWriter) {
        var first = true
        for member in reader.scanner.members where reader.field(of: member, in: text) == .other {
            writer.append(byte: first ? UInt8(ascii: "{") : UInt8(ascii: ","))
            first = false
            writer.append(byte: UInt8(ascii: "\""))
            _ = writer.append(UnsafeBufferPointer(rebasing: text[member.key.range]))
            writer.append(byte: UInt8(ascii: "\""))
            writer.append(byte: UInt8(ascii: ":"))
            _ = writer.append(UnsafeBufferPointer(rebasing: text[member.value.range]))
        }
        if let delay {
            writer.append(byte: first ? UInt8(ascii: "{") : UInt8(ascii: ","))
            writer.append(delay: delay)
        }
        writer.append(byte: UInt8(ascii: "}"))
    }
}

extension JSONSyntaxError {
    var detail: StaticString {
        switch fault {
        case .unexpectedEnd: "the text ends too early"
        case .unexpectedByte: "a byte that can't stand there"
        case .controlCharacter: "a control character inside a string"
        case .invalidUTF8: "not UTF-8"
        case .invalidEscape: "an unknown escape"
        case .invalidNumber: "not a number of JSON's grammar"
        case .trailingBytes: "something after the value"
        case .byteOrderMark: "a byte order mark"
        case .tooLong: "2^31 bytes or more"
        }
    }
}
