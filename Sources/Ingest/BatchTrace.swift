import Dispatcher
import Synchronization
import Telemetry
import Tracing
import Vocabulary

/// The spans of a batch with recorded traces: of the batch, its transactions, its acks, and those messages.
///
/// The batch's span ends when the last reference goes: with the batch, or with the last of its acks.
final class BatchTrace: Sendable {
    /// The most links of a batch to messages, as in OpenTelemetry's SDKs; the rest are only counted in `messageCount`.
    static let linkLimit = 128

    /// A message whose trace is recorded.
    fileprivate struct Member {
        let index: Int
        let parent: TraceContext?
        let key: Digest128
        /// When it was parsed, in microseconds since 1970-01-01 UTC by this process's clock, as all of its spans.
        let parsedAt: Int64

        /// The sender's context, else the message's own span.
        var creation: TraceContext { parent ?? TraceContext(messageKey: key, isSampled: true) }

        var identifying: SpanAttributes {
            var attributes = SpanAttributes()
            attributes[.messageID] = .string(key.description)
            return attributes
        }
    }

    struct Part {
        fileprivate let batch: BatchTrace
        fileprivate let range: Range<Int>
        fileprivate let outcomes: [StoreOutcome]

        /// Begins the span of the acks that one connection is about to write, and those of their messages.
        func acks(_ ranges: [Range<Int>], count: Int) -> AckTrace {
            let span = batch.tracing.begin(.ack, batch.destination, in: batch.span.context) {
                $0[.messageCount] = .int64(Int64(count))
            }
            let own = batch.members.filter { member in
                range.contains(member.index) && ranges.contains { $0.contains(member.index) }
            }
            let spans = own.compactMap { member in
                let place = member.index - range.lowerBound
                return outcomes.indices.contains(place) ? batch.begin(member, outcomes[place]) : nil
            }
            return AckTrace(batch: batch, span: span, members: spans)
        }
    }

    private let tracing: MessageTracing
    private let span: any Tracing.Span
    private let destination: String?
    private let members: [Member]

    fileprivate init(
        _ tracing: MessageTracing,
        _ members: [Member],
        destination: String?,
        count: Int,
        parsedAt: Int64
    ) {
        (self.tracing, self.destination) = (tracing, destination)
        let identity = TraceContext(
            trace: RandomSource.system.digest(),
            span: .random(in: 1 ... .max),
            isSampled: true
        )
        var context = InstrumentationContext.topLevel
        context.spanIdentity = identity
        span = tracing.begin(.store, destination, in: context, at: parsedAt) {
            $0[.messageCount] = .int64(Int64(count))
        }
        self.members = members
        for member in members {
            let context = InstrumentationContext(childOf: member.creation)
            span.addLink(SpanLink(context: context, attributes: member.identifying))
        }
    }

    deinit {
        span.end()
    }

    /// Begins the span of a message, at the time its stanza was parsed.
    private func begin(_ message: Member, _ outcome: StoreOutcome) -> any Tracing.Span {
        var context = InstrumentationContext(childOf: message.creation)
        if message.parent == nil, outcome == .stored {
            // The root of the message's own trace; a redelivered copy is one of its children.
            context.traceContext = nil
            context.spanIdentity = message.creation
        }
        let span = tracing.begin(.receive, destination, in: context, at: message.parsedAt) {
            $0.merge(message.identifying)
            $0[.outcome] = .string(outcome.rawValue)
        }
        span.addLink(SpanLink(context: self.span.context, attributes: [:]))
        return span
    }

    /// A committed part, with the outcome of each copy.
    func part(_ range: Range<Int>, _ outcomes: [StoreOutcome]) -> Part {
        Part(batch: self, range: range, outcomes: outcomes)
    }

    /// Begins the span of an attempt to commit this many messages; end it with ``ended(_:_:)``.
    func transaction(_ count: Int) -> any Tracing.Span {
        let span = tracing.tracer.startSpan("COMMIT", context: span.context, ofKind: .client)
        var attributes = SpanAttributes()
        attributes[.databaseSystem] = .string("postgresql")
        attributes[.databaseOperation] = .string("COMMIT")
        attributes[.messageCount] = .int64(Int64(count))
        span.attributes = attributes
        return span
    }

    static func ended(_ transaction: (any Tracing.Span)?, _ error: StoreError?) {
        guard let transaction else { return }
        if let error {
            transaction.updateAttributes { attributes in
                if let state = error.sqlState { attributes[.databaseStatus] = .string(state) }
                attributes[.errorType] = .string(error.sqlState ?? error.failureClass.rawValue)
            }
            // The server's message may quote data; the class is enough here, and the log has the rest.
            transaction.setStatus(SpanStatus(code: .error, message: error.failureClass.rawValue))
        }
        transaction.end()
    }
}

/// The span of a connection's acks, and those of their recorded messages.
///
/// A connection that is gone does nothing with it: then it ends, unwritten, with the last reference.
package final class AckTrace: Sendable {
    package enum Outcome: String, Sendable {
        case sent
        /// Kept until the stream resumes over another connection.
        case kept
        case none
        /// Dropped, as the connection is gone: the redelivery is acked instead.
        case connectionGone = "connection_gone"
    }

    private let batch: BatchTrace
    private let span: any Tracing.Span
    private let members: [any Tracing.Span]
    private let isEnded = Atomic<Bool>(false)

    fileprivate init(batch: BatchTrace, span: any Tracing.Span, members: [any Tracing.Span]) {
        (self.batch, self.span, self.members) = (batch, span, members)
    }

    deinit {
        ended(.connectionGone)
    }

    /// Ends the spans once the acks are written, or will not be; the first call counts.
    package func ended(_ outcome: Outcome) {
        guard !isEnded.exchange(true, ordering: .relaxed) else { return }
        span.updateAttributes { $0[.outcome] = .string(outcome.rawValue) }
        for span in members + [span] {
            if outcome == .connectionGone {
                span.updateAttributes { $0[.errorType] = .string(outcome.rawValue) }
                span.setStatus(SpanStatus(code: .error, message: outcome.rawValue))
            }
            span.end()
        }
    }
}

extension MessageTracing {
    /// Begins the spans of a batch; nil if none of its messages is in a recorded trace.
    func begin(_ batch: borrowing IngestBatch) -> BatchTrace? {
        var found: [BatchTrace.Member] = []
        var senders: Set<UInt16> = []
        // Read in place: a copy of a message would retain its bytes.
        let messages = batch.messages.span
        // Not `receivedAt`, which goes by the database's clock: spans end by ours.
        let now = ClockReading.Moment.now
        func parsedAt(_ moment: UInt64) -> Int64 {
            now.wall.microseconds &- (now.monotonic.microseconds &- MonotonicTime(nanoseconds: moment).microseconds)
        }
        for index in messages.indices {
            let key = messages[index].messageKey
            let parent = context(of: messages[index])
            guard parent?.isSampled ?? context(for: key).isSampled else { continue }
            let parsedAt = parsedAt(messages[index].parsedAt)
            found.append(BatchTrace.Member(index: index, parent: parent, key: key, parsedAt: parsedAt))
            if found.count == BatchTrace.linkLimit { break }
        }
        guard !found.isEmpty else { return nil }
        for index in messages.indices { senders.insert(messages[index].sender) }
        return BatchTrace(
            self,
            found,
            destination: senders.count == 1 ? senders.first.flatMap(senderID) : nil,
            count: messages.count,
            parsedAt: parsedAt(messages[0].parsedAt)
        )
    }
}
