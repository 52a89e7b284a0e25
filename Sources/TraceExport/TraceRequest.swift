import Telemetry
import Tracing
import Vocabulary

/// The body of an export: `ExportTraceServiceRequest` of OTLP 1.x in protocol buffers
/// (https://github.com/open-telemetry/opentelemetry-proto).
package struct TraceRequest: Sendable {
    /// The conventions that our names follow.
    static let schema = "https://opentelemetry.io/schemas/1.37.0"

    /// `resource` and `scope`, the same in every request.
    private let resource: [UInt8]
    private let scope: [UInt8]

    /// The form of all requests; `instance` names this process among those of the service.
    package init(service: String, version: String, instance: String) {
        var writer = ProtobufWriter()
        writer.message(1) { message in
            let attributes = [
                ("service.name", service), ("service.version", version), ("service.instance.id", instance),
                ("telemetry.sdk.name", "upstream-worker"), ("telemetry.sdk.language", "swift"),
                ("telemetry.sdk.version", version),
            ]
            for (name, value) in attributes { message.attribute(1, name, .string(value)) }
        }
        self.resource = writer.bytes
        writer = ProtobufWriter()
        writer.message(1) { message in
            message.string(1, "upstream-worker")
            message.string(2, version)
        }
        scope = writer.bytes
    }

    package func body(_ spans: [FinishedSpan]) -> [UInt8] {
        var writer = ProtobufWriter(capacity: 512 + spans.count * 512)
        writer.message(1) { message in
            message.raw(resource)
            message.message(2) { message in
                message.raw(scope)
                for span in spans { message.message(2) { $0.span(span) } }
                message.string(3, Self.schema)
            }
            message.string(3, Self.schema)
        }
        return writer.bytes
    }

    /// The number of spans that the collector refused, from its answer (`ExportTraceServiceResponse.partial_success`).
    package static func rejected(_ answer: [UInt8]) -> Int {
        var response = ProtobufReader(answer[...])
        while let (field, _, bytes) = response.next() {
            guard field == 1 else { continue }
            var partial = ProtobufReader(bytes)
            while let (field, count, _) = partial.next() {
                if field == 1 { return Int(clamping: Int64(bitPattern: count)) }
            }
        }
        return 0
    }
}

extension ProtobufWriter {
    /// The `SpanFlags` that tell whether the context came from another process.
    private static let hasRemote: UInt32 = 0x100
    private static let isRemote: UInt32 = 0x200

    fileprivate mutating func span(_ span: FinishedSpan) {
        bytes(1, span.context.trace.high, span.context.trace.low)
        bytes(2, span.context.span)
        if let state = span.context.state { string(3, state) }
        if let parent = span.parent { bytes(4, parent.span) }
        string(5, span.name.cut(to: SpanLimits.text))
        number(6, span.kind.number)
        fixed64(7, span.start)
        fixed64(8, span.end)
        number(10, UInt64(attributes(9, span.attributes)))
        for event in span.events {
            message(11) { message in
                message.fixed64(1, event.nanosecondsSinceEpoch)
                message.string(2, event.name.cut(to: SpanLimits.text))
                message.number(4, UInt64(message.attributes(3, event.attributes)))
            }
        }
        number(12, UInt64(span.droppedEvents))
        var droppedLinks = span.droppedLinks
        for link in span.links {
            guard let context = link.context.traceContext else {
                droppedLinks += 1
                continue
            }
            message(13) { $0.link(context, link.attributes) }
        }
        number(14, UInt64(droppedLinks))
        if let status = span.status {
            message(15) { message in
                // The conventions define a message for errors only.
                if status.code == .error { message.string(2, (status.message ?? "").cut(to: SpanLimits.text)) }
                message.number(3, status.code == .error ? 2 : 1)
            }
        }
        fixed32(16, Self.flags(span.context.flags, remote: span.parent?.isRemote ?? false))
    }

    private mutating func link(_ context: TraceContext, _ attributes: SpanAttributes) {
        bytes(1, context.trace.high, context.trace.low)
        bytes(2, context.span)
        if let state = context.state { string(3, state) }
        number(5, UInt64(self.attributes(4, attributes)))
        fixed32(6, Self.flags(context.flags, remote: context.isRemote))
    }

    private static func flags(_ flags: UInt8, remote: Bool) -> UInt32 {
        UInt32(flags) | hasRemote | (remote ? isRemote : 0)
    }

    /// Writes attributes sorted by name, up to the limit; returns how many were left out.
    private mutating func attributes(_ field: UInt64, _ attributes: SpanAttributes) -> Int {
        guard !attributes.isEmpty else { return 0 }
        var all: [(String, SpanAttribute)] = []
        // Not a sequence: forEach is the only way to iterate.
        // swift-format-ignore: ReplaceForEachWithForLoop
        attributes.forEach { all.append(($0, $1)) }
        all.sort { $0.0 < $1.0 }
        for (name, value) in all.prefix(SpanLimits.entries) { attribute(field, name, value) }
        return max(0, all.count - SpanLimits.entries)
    }

    fileprivate mutating func attribute(_ field: UInt64, _ name: String, _ value: SpanAttribute) {
        message(field) { message in
            message.string(1, name.cut(to: SpanLimits.text))
            message.message(2) { $0.value(value) }
        }
    }

    private mutating func value(_ value: SpanAttribute) {
        switch value {
        case .string(let text): element(text)
        case .stringConvertible(let text): element("\(text)")
        case .bool(let flag): element(2, flag ? 1 : 0)
        case .int32(let number): element(3, UInt64(bitPattern: Int64(number)))
        case .int64(let number): element(3, UInt64(bitPattern: number))
        case .double(let number): fixed64(4, number.bitPattern)
        case .stringArray(let texts): array(texts) { $0.element($1) }
        case .stringConvertibleArray(let texts): array(texts) { $0.element("\($1)") }
        case .boolArray(let flags): array(flags) { $0.element(2, $1 ? 1 : 0) }
        case .int32Array(let numbers): array(numbers) { $0.element(3, UInt64(bitPattern: Int64($1))) }
        case .int64Array(let numbers): array(numbers) { $0.element(3, UInt64(bitPattern: $1)) }
        case .doubleArray(let numbers): array(numbers) { $0.fixed64(4, $1.bitPattern) }
        default: break
        }
    }

    /// A text of a `oneof`, written even if empty.
    private mutating func element(_ text: String) {
        message(1) { $0.raw(Array(text.cut(to: SpanLimits.text).utf8)) }
    }

    private mutating func array<Element>(_ elements: [Element], _ write: (inout ProtobufWriter, Element) -> Void) {
        message(5) { message in
            for element in elements.prefix(SpanLimits.entries) { message.message(1) { write(&$0, element) } }
        }
    }
}

extension SpanKind {
    fileprivate var number: UInt64 {
        switch self {
        case .internal: 1
        case .server: 2
        case .client: 3
        case .producer: 4
        case .consumer: 5
        }
    }
}
