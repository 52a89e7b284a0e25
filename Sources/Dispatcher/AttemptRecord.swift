package import UpstreamKit
package import Vocabulary

/// How an attempt ended: the handler's verdict, or what it did to the row itself.
package enum AttemptEnd: Sendable {
    case verdict(HandlerVerdict)
    /// Done, and its row deleted in the handler's own transaction.
    case settled
    /// Another worker holds the row.
    case lost
    /// Nothing is known of this message, whose call failed as a whole: it is tried alone, next, under the same lease.
    case alone

    var failure: HandlerFailure? {
        if case .verdict(let verdict) = self { verdict.failure } else { nil }
    }
}

package struct AttemptCall: Sendable {
    package var delivery: Delivery
    package var message: UpstreamMessage
    package var context: HandlerContext

    package init(_ delivery: Delivery, _ message: UpstreamMessage, _ context: HandlerContext) {
        (self.delivery, self.message, self.context) = (delivery, message, context)
    }
}

package struct CallEnd: Sendable {
    /// In the order of the call.
    package var ends: [AttemptEnd]
    /// False if they had to be taken apart though none of them was at fault.
    package var areTogether: Bool

    package init(_ ends: [AttemptEnd], areTogether: Bool = true) {
        (self.ends, self.areTogether) = (ends, areTogether)
    }

    /// A call that failed as a whole: one message stands for it, as any may be the cause, and the others go alone.
    package static func failed(_ verdict: HandlerVerdict, of count: Int) -> CallEnd {
        CallEnd([.verdict(verdict)] + Array(repeating: .alone, count: count - 1))
    }
}

/// Swift code that may take several messages in one call.
package protocol BatchHandler: UpstreamHandler {
    /// The most messages of a call, at least 1.
    var batch: Int { get }
    func handle(_ calls: [AttemptCall]) async -> CallEnd
}

extension HandlerRegistration {
    /// Gives messages to Swift code: together where it takes them so, else one after the other.
    package func handle(_ calls: [AttemptCall]) async -> CallEnd {
        guard case .handler(let handler) = body else { return CallEnd(calls.map { _ in .verdict(.cancelled) }) }
        if let handler = handler as? any BatchHandler, handler.batch > 1 { return await handler.handle(calls) }
        var ends: [AttemptEnd] = []
        for call in calls { ends.append(.verdict(await HandlerVerdict.of(handler, call.message, call.context))) }
        return CallEnd(ends)
    }
}

/// Runs the attempts of one call; must end soon after cancellation.
package typealias DeliveryExecutor = @Sendable (HandlerRegistration, [AttemptCall]) async -> CallEnd

/// What the history keeps of an attempt (`upstream.attempts`), besides its settlement.
package struct AttemptRecord: Sendable, Equatable {
    package var outcome: AttemptOutcome
    /// When it began, by this machine's clock.
    @FixedInstant package var started: ContinuousClock.Instant
    package var took: Duration
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 if only its row has it.
    package var receivedAt: Int64

    package init(outcome: AttemptOutcome, started: ContinuousClock.Instant, took: Duration, receivedAt: Int64) {
        self.outcome = outcome
        self.started = started
        (self.took, self.receivedAt) = (took, receivedAt)
    }
}
