package import Logging
import Telemetry
package import UpstreamKit

/// Handler kind `log`: one line per message, for trying things out.
///
/// A line may be written later than its attempt, but before the delivery counts as done: at least once, as everything.
/// The line has the message's keys, category and size; never its token, id or data.
package struct MessageLogHandler: UpstreamHandler {
    private let logger: Logger

    /// A handler that writes to this log at `info`.
    package init(logger: Logger) {
        self.logger = logger
    }

    /// Writes the line; always done.
    package func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        logger.event(
            .info,
            .messageHandled,
            "message",
            [
                .handler: .string(context.handler),
                .messageKey: .uuid(message.messageKey.digest),
                .deviceKey: .uuid(message.deviceKey.digest),
                .category: .string(message.category),
                .attempt: .int(context.attempt),
                .bytes: .int(message.data?.count ?? 0),
            ]
        )
        return .done
    }
}
