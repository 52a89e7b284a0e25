@testable import XMLWire

/// A stanza, copied out in a form that can be compared.
struct RecordedElement: Equatable {
    var depth: Int
    var name: String
    var namespace: String
    var attributes: [String]
    var text: String
    var end: Int
}

/// An event, copied out.
enum RecordedEvent: Equatable {
    case opened([RecordedElement])
    case stanza([RecordedElement], raw: [UInt8])
    case skipped(SkippedStanza)
    case closed
}

extension RecordedEvent {
    init(_ event: XMLStreamEvent) {
        self =
            switch event {
            case .opened(let stanza): .opened(Self.elements(of: stanza))
            case .stanza(let stanza): .stanza(Self.elements(of: stanza), raw: stanza.raw)
            case .skipped(let stanza): .skipped(stanza)
            case .closed: .closed
            }
    }

    private static func elements(of stanza: Stanza) -> [RecordedElement] {
        stanza.elements.map { element in
            RecordedElement(
                depth: element.depth,
                name: stanza.string(element.name),
                namespace: stanza.string(element.namespace),
                attributes: stanza.attributes[element.attributes].map { attribute in
                    "{\(stanza.string(attribute.namespace))}\(stanza.string(attribute.name))="
                        + stanza.string(attribute.value)
                },
                text: stanza.string(element.text),
                end: element.end
            )
        }
    }

    /// The root's direct text and raw bytes, for stanzas.
    var elements: [RecordedElement] {
        switch self {
        case .opened(let elements), .stanza(let elements, _): elements
        case .skipped, .closed: []
        }
    }

    var raw: String {
        if case .stanza(_, let raw) = self { String(decoding: raw, as: UTF8.self) } else { "" }
    }
}

/// What a framer made of some bytes.
struct Recording: Equatable {
    var events: [RecordedEvent] = []
    var failure: XMLStreamError?
    var position = XMLStreamPosition.beforeHeader

    var stanzas: [RecordedEvent] {
        events.filter { if case .stanza = $0 { true } else { false } }
    }

    var skipped: [SkippedStanza] {
        events.compactMap { if case .skipped(let stanza) = $0 { stanza } else { nil } }
    }
}

extension XMLFramer {
    /// Feeds from memory of just that size, so that the address sanitizer finds a read past it.
    func feed(_ bytes: some Collection<UInt8>, _ sink: (XMLStreamEvent) -> Void) throws(XMLStreamError) {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: bytes)
        try feed(UnsafeRawBufferPointer(memory), sink)
    }
}

extension XMLStreamError {
    /// A word for the kind of error.
    var shortDescription: String {
        switch code {
        case .notWellFormed: "not_well_formed"
        case .dtd: "dtd"
        case .entity: "entity"
        case .comment: "comment"
        case .processingInstruction: "processing_instruction"
        case .badEncoding: "bad_encoding"
        case .limit: "limit"
        case .invalidNamespace: "invalid_namespace"
        case .textAtStreamLevel: "text_at_stream_level"
        case .tlsRecord: "tls_record"
        case .parserUnavailable: "parser_unavailable"
        }
    }
}

/// Feeds pieces to a new framer.
///
/// - Parameters:
///   - pieces: What is fed, each by itself.
///   - limits: What the stream is held to.
///   - plain: Whether stanzas of the ordinary form are read without libxml2.
///   - during: What to do at each event.
/// - Returns: What the framer made of them.
func record(
    _ pieces: some Sequence<some Collection<UInt8>>,
    limits: StreamLimits = StreamLimits(),
    plain: Bool = true,
    during: (XMLFramer, RecordedEvent) -> Void = { _, _ in }
) -> Recording {
    let framer = XMLFramer(limits: limits)
    framer.readsPlainStanzas = plain
    var recording = Recording()
    for piece in pieces {
        do throws(XMLStreamError) {
            try framer.feed(piece) { event in
                let recorded = RecordedEvent(event)
                recording.events.append(recorded)
                during(framer, recorded)
            }
        } catch {
            recording.failure = error
        }
    }
    recording.position = framer.position
    return recording
}

func record(
    _ text: String,
    limits: StreamLimits = StreamLimits(),
    during: (XMLFramer, RecordedEvent) -> Void = { _, _ in }
) -> Recording {
    record([Array(text.utf8)], limits: limits, during: during)
}

/// Feeds a stream's header by itself, and then pieces.
func recordStanzas(
    _ pieces: [some Collection<UInt8>],
    behind start: String = header,
    limits: StreamLimits = StreamLimits(),
    plain: Bool
) -> Recording {
    record([Array(start.utf8)] + pieces.map { Array($0) }, limits: limits, plain: plain)
}

extension Collection where Element == UInt8, Index == Int {
    /// Cut into pieces of a size, the last one shorter.
    func pieces(of size: Int) -> [SubSequence] {
        stride(from: startIndex, to: endIndex, by: size).map { self[$0..<Swift.min($0 + size, endIndex)] }
    }
}

let header =
    "<stream:stream from='example.org' id='s1' version='1.0' xmlns='jabber:client' "
    + "xmlns:stream='http://etherx.jabber.org/streams'>"

/// A header that narrow limits let pass: without attributes, and with one declaration.
let narrowHeader = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams'>"
