import Telemetry
import UpstreamKit

/// A message as a CloudEvent (CloudEvents 1.0.2, JSON format 1.0.2), in structured content mode.
enum CloudEvent {
    /// The media type of ``structured(_:_:)``.
    static let contentType = "application/cloudevents+json"

    /// The event's JSON text.
    ///
    /// `data` is the message's, verbatim. `messageid` and `category` are left out where the device put characters into
    /// them that a CloudEvents string may not hold (§3.1 "String"); `id` names the message all the same.
    static func structured(_ message: UpstreamMessage, _ context: HandlerContext) -> [UInt8] {
        var event = JSONText(capacity: 640 + (message.data?.count ?? 0))
        event.member("specversion", "1.0")
        event.member("id", message.messageKey.description)
        event.member("source", source(message))
        event.member("type", "upstream.message.v1")
        event.member("subject", message.deviceKey.description)
        event.member("time", UTCTime(microseconds: message.receivedAtMicroseconds).rfc3339)
        if isAllowed(message.messageID) { event.member("messageid", message.messageID) }
        if isAllowed(message.category) { event.member("category", message.category) }
        event.member("attempt", context.attempt)
        if let replayID = context.replayID { event.member("replayid", replayID) }
        if let data = message.data {
            event.member("datacontenttype", "application/json")
            event.member("data", json: data)
        }
        return event.finish()
    }

    /// The event's `source`: a URI reference (RFC 3986), everything but unreserved characters percent-encoded.
    private static func source(_ message: UpstreamMessage) -> String {
        "/senders/\(percentEncoded(message.senderID))/apps/\(percentEncoded(message.category))"
    }

    private static func percentEncoded(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: result.append(byte)
            default: result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
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
