package import Telemetry
package import Tracing
import UpstreamKit
import Vocabulary

/// The trace of an attempt: its span, if recorded, and the context that the handler passes on.
struct AttemptTrace: Sendable {
    /// Nil if the trace is not recorded.
    private let span: (any Tracing.Span)?
    /// The span's context, else the message's own, which is passed on unchanged.
    let context: InstrumentationContext

    init(_ tracing: MessageTracing, _ message: UpstreamMessage, _ delivery: Delivery, _ handler: HandlerContext) {
        let parent = tracing.context(in: message.data) ?? tracing.context(for: delivery.messageKey)
        let outer = InstrumentationContext(childOf: parent)
        guard parent.isSampled else {
            (span, context) = (nil, outer)
            return
        }
        let span = tracing.begin(.process, message.senderID, in: outer) { attributes in
            attributes[.messageID] = .string(delivery.messageKey.description)
            attributes[.consumerGroup] = .string(handler.handler)
            attributes[.category] = .string(message.category)
            attributes[.attempt] = .int64(Int64(handler.attempt))
            if let replay = handler.replayID { attributes[.replay] = .string(replay) }
        }
        (self.span, context) = (span, span.context)
    }

    func inject(into handler: inout HandlerContext) {
        guard let own = context.traceContext else { return }
        handler.traceparent = own.traceparent
        handler.tracestate = own.state
    }

    func ended(_ outcome: AttemptOutcome?, _ failure: HandlerFailure?) {
        guard let span else { return }
        span.updateAttributes { attributes in
            attributes[.outcome] = .string(outcome?.rawValue ?? "lost")
            if let failure { attributes[.errorType] = .string(failure.isQuoted ? "_OTHER" : failure.group) }
        }
        if let failure { span.setStatus(SpanStatus(code: .error, message: failure.logText)) }
        span.end()
    }
}

extension MessageTracing {
    /// Begins the span of an operation on one sender's messages, or several's, at microseconds since 1970 UTC, or now.
    package func begin(
        _ operation: MessagingOperation,
        _ senderID: String?,
        in context: InstrumentationContext,
        at microseconds: Int64? = nil,
        _ describe: (inout SpanAttributes) -> Void
    ) -> any Tracing.Span {
        let name = operation.spanName(senderID)
        let span =
            if let microseconds {
                tracer.startSpan(
                    name,
                    context: context,
                    ofKind: operation.kind,
                    at: DefaultTracerClock.Timestamp(microseconds: microseconds)
                )
            } else {
                tracer.startSpan(name, context: context, ofKind: operation.kind)
            }
        var attributes = operation.attributes(senderID)
        describe(&attributes)
        span.attributes = attributes
        return span
    }
}
