import Dispatcher
import UpstreamKit
import Vocabulary

/// A message as a CloudEvent (CloudEvents 1.0.2) in an HTTP request (HTTP binding 1.0.2).
struct CloudEvent: Sendable {
    var headers: [(String, String)]
    var body: [UInt8]

    private static let headerLimit = 2048

    /// The event in structured content mode: the body is the whole event (JSON format 1.0.2), with `data` verbatim.
    static func structured(_ message: UpstreamMessage, _ context: HandlerContext) -> CloudEvent {
        var event = JSONWriter(capacity: 640 + (message.data?.count ?? 0))
        write(message, context, to: &event)
        return CloudEvent(headers: [("content-type", "application/cloudevents+json")], body: event.finish())
    }

    /// Events in batched content mode: the body is an array of whole events (JSON batch format 1.0.2).
    ///
    /// Each holds its trace context, as in the extension "Distributed Tracing".
    static func batch(_ calls: [AttemptCall]) -> CloudEvent {
        var events = JSONWriter(capacity: calls.reduce(2) { $0 + 800 + ($1.message.data?.count ?? 0) })
        events.beginArray()
        for call in calls { write(call.message, call.context, isTraced: true, to: &events) }
        events.endArray()
        return CloudEvent(headers: [("content-type", "application/cloudevents-batch+json")], body: events.finish())
    }

    private static func write(
        _ message: UpstreamMessage,
        _ context: HandlerContext,
        isTraced: Bool = false,
        to event: inout JSONWriter
    ) {
        event.beginObject()
        for (name, text) in attributes(message) { event.member(name, text) }
        event.member("attempt", context.attempt)
        if let replayID = context.replayID { event.member("replayid", replayID) }
        if isTraced, let traceparent = context.traceparent {
            event.member("traceparent", traceparent)
            if let tracestate = context.tracestate { event.member("tracestate", tracestate) }
        }
        if let data = message.data {
            event.member("datacontenttype", "application/json")
            event.member("data", json: data)
        }
        event.endObject()
    }

    /// The event in binary content mode: the body is `data`, verbatim, and headers `ce-…` hold the attributes.
    static func binary(_ message: UpstreamMessage, _ context: HandlerContext) -> CloudEvent {
        var headers: [(String, String)] = []
        for (name, text) in attributes(message) {
            let value = headerValue(text)
            // Longer attributes are left out.
            if value.utf8.count <= headerLimit { headers.append(("ce-\(name)", value)) }
        }
        headers.append(("ce-attempt", String(context.attempt)))
        if let replayID = context.replayID { headers.append(("ce-replayid", headerValue(replayID))) }
        if message.data != nil { headers.append(("content-type", "application/json")) }
        return CloudEvent(headers: headers, body: message.data ?? [])
    }

    /// The attributes and extensions about the message, in order.
    ///
    /// `messageid` and `category` are left out if they hold characters that a CloudEvents string may not (§3.1
    /// "String"); `id` still names the message.
    private static func attributes(_ message: UpstreamMessage) -> [(name: StaticString, text: String)] {
        var attributes: [(name: StaticString, text: String)] = [
            ("specversion", "1.0"),
            ("id", message.messageKey.description),
            ("source", "/senders/\(uriSegment(message.senderID))/apps/\(uriSegment(message.category))"),
            ("type", "upstream.message.v1"),
            ("subject", message.deviceKey.description),
            ("time", Timestamp(microseconds: message.receivedAtMicroseconds).rfc3339),
        ]
        if isAllowed(message.messageID) { attributes.append(("messageid", message.messageID)) }
        if isAllowed(message.category) { attributes.append(("category", message.category)) }
        return attributes
    }

    /// A text as a path segment of a URI (RFC 3986 §3.3), percent-encoded except for unreserved characters.
    private static func uriSegment(_ text: String) -> String {
        percentEncoded(text) { $0.isLetterOrDigit || "-._~".utf8.contains($0) }
    }

    /// A header's value (HTTP binding §3.1.3.2): percent-encoded but for printable ASCII without `"` and `%`.
    private static func headerValue(_ text: String) -> String {
        percentEncoded(text) { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x25 }
    }

    private static func percentEncoded(_ text: String, except stays: (UInt8) -> Bool) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            result += stays(byte) ? [byte] : [UInt8(ascii: "%"), Hex.upperDigit(byte >> 4), Hex.upperDigit(byte)]
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Whether a CloudEvents string may hold this text: no control characters, no noncharacters, and not empty.
    private static func isAllowed(_ text: String) -> Bool {
        !text.isEmpty
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar.value {
                case 0...0x1F, 0x7F...0x9F, 0xFDD0...0xFDEF: false
                default: scalar.value & 0xFFFE != 0xFFFE
                }
            }
    }
}
