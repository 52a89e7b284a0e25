import UpstreamKit
import Vocabulary

/// A message as a JSON object for handlers outside this process: see `docs/handlers.md`.
enum MessageObject {
    /// The object on one line, without its newline.
    static func line(_ message: UpstreamMessage, _ context: HandlerContext) -> [UInt8] {
        var object = JSONWriter(capacity: 640 + (message.data?.count ?? 0) + (message.extra?.count ?? 0))
        object.beginObject()
        object.member("message_key", message.messageKey.digest)
        object.member("message_id", message.messageID)
        object.member("sender_id", message.senderID)
        object.member("category", message.category)
        object.member("registration_token", message.registrationToken.rawValue)
        object.member("device_key", message.deviceKey.digest)
        object.member("data", json: message.data)
        object.member("extra", json: message.extra)
        object.member("message_type", message.messageType)
        object.member("received_at", Timestamp(microseconds: message.receivedAtMicroseconds))
        object.member("attempt", context.attempt)
        object.member("replay_id", context.replayID)
        // Only with tracing on, so that the object is unchanged without it.
        if let traceparent = context.traceparent { object.member("traceparent", traceparent) }
        if let tracestate = context.tracestate { object.member("tracestate", tracestate) }
        object.endObject()
        return object.finish()
    }
}
