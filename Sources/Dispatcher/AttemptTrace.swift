import Telemetry
import Tracing
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
        let operation = MessagingOperation.process
        let span = tracing.tracer.startSpan(
            operation.spanName(message.senderID),
            context: outer,
            ofKind: operation.kind
        )
        var attributes = operation.attributes(message.senderID)
        attributes[.messageID] = .string(delivery.messageKey.description)
        attributes[.consumerGroup] = .string(handler.handler)
        attributes[.category] = .string(message.category)
        attributes[.attempt] = .int64(Int64(handler.attempt))
        if let replay = handler.replayID { attributes[.replay] = .string(replay) }
        span.attributes = attributes
        (self.span, context) = (span, span.context)
    }

    /// Gives the handler the context to pass on.
    func inject(into handler: inout HandlerContext) {
        guard let own = context.traceContext else { return }
        handler.traceparent = own.traceparent
        handler.tracestate = own.state
    }

    func ended(_ ending: DispatchStateMachine.Ending, _ failure: HandlerFailure?) {
        guard let span else { return }
        span.updateAttributes { attributes in
            attributes[.outcome] = .string(AttemptTrace.text(ending))
            if let failure { attributes[.errorType] = .string(failure.isQuoted ? "_OTHER" : failure.group) }
        }
        if let failure { span.setStatus(SpanStatus(code: .error, message: failure.logText)) }
        span.end()
    }

    private static func text(_ ending: DispatchStateMachine.Ending) -> String {
        switch ending {
        case .done: "done"
        case .retry: "retry"
        case .rejected: "rejected"
        case .exhausted: "exhausted"
        case .released: "released"
        case .lost: "lost"
        }
    }
}
