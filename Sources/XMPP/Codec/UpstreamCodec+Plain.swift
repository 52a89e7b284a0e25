import Vocabulary
import XMLWire

// Messages that no JSON envelope carries: bodies, whole stanzas and events. Each becomes the envelope that a device
// could have sent, and is read as one.

/// What a form gives for an envelope.
struct PlainContent {
    enum ID {
        /// By `fallback.message_id`.
        case fallback
        case given([UInt8])
        case missing
    }

    var id = ID.fallback
    /// An event's node, which is its category and the resource of its device's address (XEP-0060 section 4.6).
    var node: [UInt8]?
    /// The JSON of `data`; nil for none.
    var data: [UInt8]?
    /// Other members, each with a comma behind it.
    var extra: [UInt8] = []
    /// Whether the stanza's bytes are kept in `extra`.
    var keepsBytes = false
    /// Why it belongs in quarantine, whatever it is otherwise.
    var fault: (reason: QuarantineReason, detail: StaticString)?
}

extension UpstreamCodec {
    /// The most bytes in which an event's items are told apart: each of their messages holds the whole stanza.
    private static let sharedBytes = 1 << 20

    mutating func message(
        _ content: PlainContent,
        _ plain: PlainPayload,
        as form: PayloadForm,
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> IncomingMessage {
        var fault = content.fault
        var text = [UInt8(ascii: "{")]
        switch content.id {
        case .given(let id): text.append(member: "message_id", id)
        case .fallback:
            switch fallbackID(plain.messageID, of: stanza, arrival) {
            case .id(let id): text.append(member: "message_id", id)
            case .ambiguous(let detail): fault = fault ?? (.identityAmbiguous, detail)
            case .none: break
            }
        case .missing: break
        }
        if let sender = sender(of: stanza, arrival) {
            let device = content.node.map { sender.bare.bytes + [UInt8(ascii: "/")] + $0 }
            text.append(member: "from", device ?? sender.bytes)
        }
        if let category = content.node ?? plain.category(of: stanza, arrival) {
            text.append(member: "category", category)
        }
        if let data = content.data {
            text += Array("\"data\":".utf8) + data
            text.append(UInt8(ascii: ","))
        }
        text += content.extra
        // What a server repeats unchanged.
        let stable = text.count
        if content.keepsBytes { text.append(member: "stanza", stanza.raw) }
        if text.last == UInt8(ascii: ",") { text.removeLast() }
        text.append(UInt8(ascii: "}"))
        let answer = WantedAnswer(plain.ack, to: form, of: stanza)
        return text.withUnsafeBufferPointer { text in
            // Only a text of 2^31 bytes is refused, and that is above every limit.
            let envelope = (try? reader.read(text)) ?? Envelope()
            var message = assemble(envelope, text, of: stanza, arrival, answer: answer)
            message.payload = content.data == nil && fault != nil ? nil : ByteSpan(start: 0, count: stable)
            if let fault { (message.quarantine, message.quarantineDetail) = (fault.reason, fault.detail) }
            return message
        }
    }

    // MARK: Bodies

    /// The body without a language, or else the first; the others go into `extra` by their languages.
    func body(of stanza: Stanza, _ plain: PlainPayload) -> PlainContent {
        let bodies = stanza.children().filter { stanza.element($0, is: "body", in: XMLNamespace.client) }
        let languages = bodies.map { stanza.language(of: $0) }
        var content = PlainContent()
        let isMarkup = bodies.contains { stanza.element(at: $0).end > $0 + 1 }
        guard !isMarkup, Set(languages).count == bodies.count else {
            content.data = StanzaJSON.array(bodies, of: stanza)
            content.fault = (
                .payloadMisplaced, isMarkup ? "an element inside body" : "more than one body in a language"
            )
            return content
        }
        let chosen = languages.firstIndex(of: []) ?? 0
        func text(_ body: Int) -> ArraySlice<UInt8> { stanza.bytes[stanza.element(at: body).text] }
        let chosenText = text(bodies[chosen])
        content.data = plain.readsJSON && isJSON(chosenText) ? Array(chosenText) : [UInt8](literal: chosenText)
        guard bodies.count > 1 else { return content }
        content.extra = Array("\"body\":{".utf8)
        for (place, body) in bodies.enumerated() where place != chosen {
            content.extra.append(literal: languages[place])
            content.extra.append(UInt8(ascii: ":"))
            content.extra.append(literal: text(body))
            content.extra.append(UInt8(ascii: ","))
        }
        content.extra.removeLast()
        content.extra += Array("},".utf8)
        return content
    }

    private func isJSON(_ text: ArraySlice<UInt8>) -> Bool {
        var scanner = JSONScanner()
        return text.withUnsafeBufferPointer { (try? scanner.scan($0)) != nil }
    }

    // MARK: Stanzas

    func whole(_ stanza: Stanza) -> PlainContent { element(0, of: stanza) }

    /// An element as canonical JSON, beside the stanza's bytes.
    private func element(_ index: Int, of stanza: Stanza) -> PlainContent {
        var content = PlainContent(data: StanzaJSON.object(index, of: stanza), keepsBytes: true)
        if content.data == nil {
            content.fault = (.fieldTooLong, "namespaces make it many times longer as JSON")
        }
        return content
    }

    // MARK: Events

    /// The messages of an event: one for each item or retraction, or one for an event of another kind.
    mutating func event(
        _ event: Int,
        _ plain: PlainPayload,
        of stanza: Stanza,
        _ arrival: Arrival
    ) -> DecodedStanza {
        let children = stanza.children(of: event)
        let entries = children.first.map { stanza.children(of: $0) } ?? []
        let named = children.lazy.compactMap { stanza.attribute("node", of: $0) }.first { !$0.isEmpty }
        let node = named.map { Array(stanza.bytes[$0]) }
        let isList = children.count == 1 && stanza.element(children[0], is: "items", in: XMLNamespace.events)
        guard isList, !entries.isEmpty, entries.count == 1 || entries.count * stanza.raw.count <= Self.sharedBytes
        else {
            var content = element(event, of: stanza)
            content.node = node
            return .message(message(content, plain, as: .event, of: stanza, arrival))
        }
        let messages = entries.map { entry in
            var content = item(entry, of: stanza)
            content.node = node
            if entries.count > 1 {
                if case .fallback = content.id { content.id = .missing }
                content.keepsBytes = false
            }
            return message(content, plain, as: .event, of: stanza, arrival)
        }
        return messages.count == 1 ? .message(messages[0]) : .messages(messages)
    }

    /// An item's payload: the text of a JSON container, or else the element; anything but an item is kept whole.
    private func item(_ index: Int, of stanza: Stanza) -> PlainContent {
        // The id in a retraction is another message's.
        guard stanza.element(index, is: "item", in: XMLNamespace.events) else { return element(index, of: stanza) }
        let payloads = stanza.children(of: index)
        let isBlank = stanza.bytes[stanza.element(at: index).text].allSatisfy { $0 <= 0x20 }
        var content: PlainContent
        switch payloads.count {
        case _ where !isBlank: content = element(index, of: stanza)
        case 0: content = PlainContent()
        case 1 where stanza.element(payloads[0], is: "json", in: XMLNamespace.json):
            let payload = stanza.element(at: payloads[0])
            content = element(payloads[0], of: stanza)
            content.keepsBytes = false
            if payload.end == payloads[0] + 1, isJSON(stanza.bytes[payload.text]) {
                content.data = Array(stanza.bytes[payload.text])
            } else {
                content.fault = (.payloadNotJSON, "an item's json")
            }
        case 1: content = element(payloads[0], of: stanza)
        default: content = element(index, of: stanza)
        }
        if let id = stanza.attribute("id", of: index), !id.isEmpty { content.id = .given(Array(stanza.bytes[id])) }
        return content
    }
}

extension Stanza {
    /// The `xml:lang` of an element; empty for none.
    func language(of index: Int) -> [UInt8] {
        let found = attributes[elements[index].attributes].first {
            equals($0.name, "lang") && equals($0.namespace, "http://www.w3.org/XML/1998/namespace")
        }
        return found.map { Array(bytes[$0.value]) } ?? []
    }
}
