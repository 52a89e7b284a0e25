import ConfigurationKeys
import Logging
import Telemetry
import UpstreamKit

struct LogKind: HandlerKind {
    static let key = "log"

    init(_ scope: ConfigurationScope) {}

    func body(_ common: HandlerCommon) -> HandlerRegistration.Body {
        .handler(MessageLogHandler(logger: common.gathered))
    }
}

/// Handler kind `log`: logs each message on one line, for trying things out.
///
/// A line may be written later than its attempt, but before the delivery counts as done: at least once, as everything.
/// It has the message's keys, category and size; never its token, id or data.
struct MessageLogHandler: ImmediateHandler {
    let logger: Logger

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        take([MessageOutline(message, attempt: context.attempt)], handler: context.handler)
        return .done
    }

    func take(_ messages: [MessageOutline], handler: String) {
        logger.event(.info, .messageHandled, "message", each: messages) { message in
            [
                .messageKey: .uuid(message.messageKey),
                .deviceKey: .uuid(message.deviceKey),
                .category: .string(message.category),
                .handler: .string(handler),
                .attempt: .int(message.attempt),
                .bytes: .int(message.dataCount),
            ]
        }
    }
}
