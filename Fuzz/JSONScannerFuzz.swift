import Vocabulary

// A libFuzzer target for the JSON scanner, the codec and the ack encoder, built from their sources as one module.
//
// Properties: no input crashes; every span lies inside its text; the top-level members' spans are JSON themselves, with
// the same verdict on castability; the scanner's result does not depend on earlier scans; and each ack is well-formed
// XML around JSON that names the same id and token, in both texts.

/// Ends the process, which libFuzzer reports with the input.
private func require(_ condition: Bool, _ what: StaticString) {
    if !condition { fatalError("\(what)") }
}

nonisolated(unsafe) private var reused = JSONScanner()
nonisolated(unsafe) private var codec: UpstreamCodec = {
    UpstreamCodec(StreamSettings(senderID: "1", domain: "example.com", dialect: .xmpp))
}()

/// The same sender with JSON containers and every fall-back.
nonisolated(unsafe) private var containerCodecs: [UpstreamCodec] = [PlainPayload.Ack.json, .receipt].map { ack in
    var settings = StreamSettings(senderID: "1", domain: "example.com", dialect: .xmpp)
    settings.payload = .plain(
        PlainPayload(ack: ack, messageID: .stanzaID, from: .sender, categoryFrom: .localpart, category: "c")
    )
    return UpstreamCodec(settings)
}

/// The same sender with each form that no JSON envelope carries, and every fall-back.
nonisolated(unsafe) private var formCodecs: [(form: PayloadForm, codec: UpstreamCodec)] =
    [PayloadForm.body, .stanza, .event].map { form in
        var settings = StreamSettings(senderID: "1", domain: "example.com", dialect: .xmpp)
        var plain = PlainPayload(readsJSON: true, ack: .receipt, messageID: .senderStanzaID, categoryFrom: .subject)
        plain.forms = [form]
        plain.category = "c"
        settings.payload = .plain(plain)
        return (form, UpstreamCodec(settings))
    }

private func scan(_ text: UnsafeBufferPointer<UInt8>, with scanner: inout JSONScanner) -> JSONKind? {
    do throws(JSONSyntaxError) {
        return try scanner.scan(text)
    } catch {
        require(error.offset >= 0 && error.offset <= text.count, "a fault's offset outside of the text")
        return nil
    }
}

private func isInside(_ span: ByteSpan, _ count: Int) -> Bool { Int(span.start) + Int(span.count) <= count }

private func checkMembers(_ text: UnsafeBufferPointer<UInt8>, _ scanner: JSONScanner) {
    var inner = JSONScanner()
    for member in scanner.members.prefix(64) {
        require(isInside(member.key, text.count) && isInside(member.value, text.count), "a span outside of the text")
        let value = UnsafeBufferPointer(rebasing: text[member.value.range])
        require(scan(value, with: &inner) == member.kind, "a member's value is no JSON by itself")
        // Wrapped again as the only member, it has the same traits.
        let wrapped = Array("{\"x\":".utf8) + value + Array("}".utf8)
        wrapped.withUnsafeBufferPointer { wrapped in
            require(scan(wrapped, with: &inner) == .object, "a member's value is refused elsewhere")
            require(inner.members.first?.traits == member.traits, "another verdict on the same value")
        }
        guard member.kind == .string else { continue }
        let literal = UnsafeBufferPointer(rebasing: text[member.body.range])
        var room = [UInt8](repeating: 0, count: literal.count + 1)
        let count = room.withUnsafeMutableBufferPointer { room in
            room.baseAddress.map { JSONLiteral.unescape(literal, into: $0) } ?? 0
        }
        require(count <= literal.count, "a text longer than its literal")
        let valid = String(validating: room[..<count], as: UTF8.self) != nil
        require(valid == member.traits.isStorable, "storable and not UTF-8, or the reverse")
    }
}

private func encodedAck(of message: IncomingMessage, _ encoder: AckEncoder) -> [UInt8] {
    let limit = encoder.sizeLimit(of: [message].span, 0)
    let ack = [UInt8](unsafeUninitializedCapacity: limit) { room, count in
        count = encoder.encode([message].span, 0, into: UnsafeMutableRawBufferPointer(room))
    }
    require(ack.count <= limit, "an ack longer than announced")
    return ack
}

/// The previous message, which may share a block of memory, and a copy of its bytes.
nonisolated(unsafe) private var neighbour: (message: IncomingMessage, bytes: [UInt8])?

private func checkEnvelope(_ text: UnsafeBufferPointer<UInt8>) {
    let stanza = Stanza.fuzzed(payload: text)
    let decoded = codec.decode(stanza, receivedAt: 1, parsedAt: 1, following: 4 * text.count)
    if let neighbour { require(neighbour.message.bytes.elementsEqual(neighbour.bytes), "it wrote over the one before") }
    guard case .message(let message) = decoded else { return }
    neighbour = (message, Array(message.bytes))
    var echoed: (id: ByteSpan, to: ByteSpan)?
    if case .gcm(let id, let to) = message.answer { echoed = (id, to) }
    let spans = [
        message.messageID, message.registrationToken, message.category, message.data, message.extra,
        message.messageType, message.stanzaFrom, echoed?.id, echoed?.to, message.stanza,
    ]
    for case .some(let span) in spans { require(isInside(span, message.bytes.count), "a span outside of the bytes") }
    require((message.kind == .malformed) == (echoed == nil), "an ack without an id, or the reverse")
    let ack = encodedAck(of: message, AckEncoder(StreamSettings(senderID: "1", domain: "example.com")))
    require(!message.answer.isSent || ack.count <= AckEncoder.mostBytes, "an ack over the ceiling")
    if let extra = message.extra {
        var inner = JSONScanner()
        let kind = message.bytes[extra.range].withContiguousStorageIfAvailable { scan($0, with: &inner) }
        require(kind == .some(.object), "extra is no JSON object")
    }
    guard let (id, token) = echoed else {
        require(ack.isEmpty, "an ack for what is not acked")
        return
    }
    let head = Array("<message id=\"\"><gcm xmlns=\"google:mobile:data\">".utf8)
    let tail = Array("</gcm></message>".utf8)
    require(ack.starts(with: head) && ack.suffix(tail.count).elementsEqual(tail), "an ack of another form")
    let payload = Array(ack[head.count..<ack.count - tail.count])
    for byte in payload { require(byte >= 0x20 && byte != 0x7f && !"<>&'".utf8.contains(byte), "markup in an ack") }
    payload.withUnsafeBufferPointer { payload in
        var inner = JSONScanner()
        require(scan(payload, with: &inner) == .object && inner.members.count == 3, "an ack that is no JSON")
        func unescaped(_ literal: some Collection<UInt8>) -> [UInt8] {
            let literal = Array(literal)
            return [UInt8](unsafeUninitializedCapacity: literal.count + 1) { room, count in
                count = literal.withUnsafeBufferPointer { literal in
                    room.baseAddress.map { JSONLiteral.unescape(literal, into: $0) } ?? 0
                }
            }
        }
        require(unescaped(payload[inner.members[0].body.range]) == unescaped(message.bytes[token.range]), "another to")
        require(unescaped(payload[inner.members[1].body.range]) == unescaped(message.bytes[id.range]), "another id")
    }
}

/// Checks that a container without an id, sender or address to fall back on reads like a `gcm` of the same text.
private func checkContainer(_ text: UnsafeBufferPointer<UInt8>) {
    guard case .message(let wanted) = codec.decode(.fuzzed(payload: text), receivedAt: 1, parsedAt: 1) else { return }
    let stanza = Stanza.fuzzed(payload: text, in: ("json", "urn:xmpp:json:0"))
    for index in containerCodecs.indices {
        guard case .message(let message) = containerCodecs[index].decode(stanza, receivedAt: 1, parsedAt: 1) else {
            fatalError("a container is no message where a gcm is one")
        }
        // Except for the category, whose fall-back needs nothing of the stanza.
        if wanted.quarantine != .categoryUnusable || wanted.category != nil {
            require(message.quarantine == wanted.quarantine, "another verdict on a container")
            require(message.kind == wanted.kind, "another kind of container")
            require(message.messageKey == wanted.messageKey, "another key of a container")
            require(message.fingerprint == wanted.fingerprint || wanted.category == nil, "another fingerprint")
        }
        require(index == 0 || !message.answer.isSent, "a receipt that nobody asked for")
        _ = encodedAck(of: message, AckEncoder(StreamSettings(senderID: "1", domain: "example.com", dialect: .xmpp)))
    }
}

/// Checks that a text is whole wherever XML can hold it, and no part of a message that it does not name.
private func checkForms(_ text: UnsafeBufferPointer<UInt8>) {
    // A framer lets nothing else through.
    guard String(validating: text, as: UTF8.self) != nil, !text.contains(0) else { return }
    let given = Array(text)
    var scanner = JSONScanner()
    let isJSON = scan(text, with: &scanner) != nil
    let from = Array("example.com".utf8)
    for index in formCodecs.indices {
        let form = formCodecs[index].form
        let stanza = Stanza.fuzzed(text, in: form, from: from)
        let messages: [IncomingMessage]
        switch formCodecs[index].codec.decode(stanza, receivedAt: 1, parsedAt: 1) {
        case .message(let message): messages = [message]
        case .messages(let several): messages = several
        default: fatalError("a form is no message")
        }
        require(messages.count == (form == .event ? 2 : 1), "messages were lost or made up")
        for message in messages {
            let id = form == .event ? given : from + [0x20] + given
            require((message.kind == .malformed) == given.isEmpty, "another kind")
            if let found = message.messageID { require(message.bytes[found.range].elementsEqual(id), "another id") }
            require(message.bytes.count <= 32 * stanza.bytes.count + 100_000, "many times longer")
            guard let data = message.data else {
                require(message.quarantine != nil || form == .event, "nothing of a message")
                continue
            }
            let kind = message.bytes[data.range].withContiguousStorageIfAvailable { scan($0, with: &scanner) }
            require(kind.flatMap { $0 } != nil, "data is no JSON")
            guard form == .body, !isJSON else { continue }
            let literal = Array(message.bytes[data.range].dropFirst().dropLast())
            let read = literal.withUnsafeBufferPointer { JSONLiteral.text(of: $0) }
            require(read == given, "another text")
        }
    }
}

extension Stanza {
    /// A message with this text in every place of a form: the id, the subject, an attribute, and the content.
    fileprivate static func fuzzed(_ text: UnsafeBufferPointer<UInt8>, in form: PayloadForm, from: [UInt8]) -> Stanza {
        let stanza = Stanza()
        func store(_ text: some Sequence<UInt8>) -> Range<Int> {
            let start = stanza.bytes.count
            stanza.bytes.append(contentsOf: text)
            return start..<stanza.bytes.count
        }
        func add(_ depth: Int, _ name: String, _ namespace: String, id: Bool = false, from: [UInt8]? = nil) {
            let first = stanza.attributes.count
            func attribute(_ name: String, _ value: some Sequence<UInt8>) {
                stanza.attributes.append(Attribute(name: store(name.utf8), namespace: 0..<0, value: store(value)))
            }
            if id { attribute("id", text) }
            if let from { attribute("from", from) }
            stanza.elements.append(
                Element(
                    depth: depth,
                    name: store(name.utf8),
                    namespace: store(namespace.utf8),
                    attributes: first..<stanza.attributes.count,
                    text: store(text),
                    end: stanza.elements.count + 1
                )
            )
            for index in stanza.elements.indices.dropLast()
            where stanza.elements[index].end == stanza.elements.count - 1 {
                if stanza.elements[index].depth < depth { stanza.elements[index].end = stanza.elements.count }
            }
        }
        stanza.raw = Array("<message/>".utf8)
        add(0, "message", "jabber:client", id: true, from: from)
        add(1, "subject", "jabber:client")
        switch form {
        case .body: add(1, "body", "jabber:client")
        case .event:
            let events = "http://jabber.org/protocol/pubsub#event"
            add(1, "event", events)
            add(2, "items", events)
            add(3, "item", events, id: true)
            add(4, "json", "urn:xmpp:json:0")
            add(3, "item", events, id: true)
        case .gcm, .json, .stanza: add(1, "x", String(decoding: text, as: UTF8.self), id: true)
        }
        return stanza
    }

    /// A trusted message with this payload.
    fileprivate static func fuzzed(
        payload: UnsafeBufferPointer<UInt8>,
        in element: (name: String, namespace: String) = ("gcm", "google:mobile:data")
    ) -> Stanza {
        let stanza = Stanza()
        func store(_ text: some Sequence<UInt8>) -> Range<Int> {
            let start = stanza.bytes.count
            stanza.bytes.append(contentsOf: text)
            return start..<stanza.bytes.count
        }
        let name = store("message".utf8)
        let namespace = store("jabber:client".utf8)
        let inner = store(element.name.utf8)
        let innerNamespace = store(element.namespace.utf8)
        let text = store(payload)
        stanza.raw = Array("<message/>".utf8)
        stanza.elements = [
            Element(
                depth: 0,
                name: name,
                namespace: namespace,
                attributes: 0..<0,
                text: 0..<0,
                end: 2
            ),
            Element(
                depth: 1,
                name: inner,
                namespace: innerNamespace,
                attributes: 0..<0,
                text: text,
                end: 2
            ),
        ]
        return stanza
    }
}

/// The entry point of libFuzzer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let text = UnsafeBufferPointer(start: data, count: count)
    var fresh = JSONScanner()
    let first = scan(text, with: &fresh)
    let again = scan(text, with: &reused)
    require(first == again && fresh.members == reused.members, "the result depends on what was scanned before")
    if first != nil {
        require(String(validating: text, as: UTF8.self) != nil, "accepted what is not UTF-8")
        checkMembers(text, fresh)
    }
    checkEnvelope(text)
    checkContainer(text)
    checkForms(text)
    return 0
}
