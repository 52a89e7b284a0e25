import Dispatcher
import Ingest
import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import Tracing
import Vocabulary

@testable import TraceExport

/// A database that stores everything but what it knows, after so many outages.
private final class TracedWriter: MessageWriter {
    private let outages: Mutex<Int>

    init(outages: Int = 0) { self.outages = Mutex(outages) }

    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        let isDown = outages.withLock { left in
            left -= 1
            return left >= 0
        }
        if isDown {
            throw StoreError(kind: .unavailable, sqlState: "57P03", message: "FAKE-DETAIL", failureClass: .intervention)
        }
        return batch.map { $0.deviceKey.low == 1 ? .duplicate : .stored }
    }
}

/// A connection that does with its acks what a test says.
private final class TracedSink: AckSink {
    let outcome: AckTrace.Outcome?
    let hasTrace = Mutex<[Bool]>([])

    init(_ outcome: AckTrace.Outcome?) { self.outcome = outcome }

    func settled(_ copies: SettledCopies) {
        hasTrace.withLock { $0.append(copies.trace != nil) }
        // Without an outcome the connection is gone, and does nothing.
        if let outcome { copies.trace?.ended(outcome) }
    }
}

@Suite("Spans of batches", .timeLimit(.minutes(5)))
struct MessageTraceTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let key = Digest128(high: 0x0AF7_6519_16CD_43DD, low: 0x8448_EB21_1C80_319C)
    private static let sampled = "00-\(trace)-b7ad6b7169203331-01"
    private static let unsampled = "00-\(trace)-b7ad6b7169203331-00"

    private func message(_ key: UInt64, traceparent: String? = nil, isKnown: Bool = false) -> IncomingMessage {
        let data = Array((traceparent.map { #"{"traceparent":"\#($0)"}"# } ?? "{}").utf8)
        let whole = ByteSpan(start: 0, count: data.count)
        var message = IncomingMessage(kind: .upstream, bytes: data, stanza: whole)
        message.data = whole
        message.messageKey = Digest128(high: 0x1234, low: key)
        message.deviceKey = Digest128(high: 0, low: isKnown ? 1 : 2)
        message.parsedAt = MonotonicTime.now.nanoseconds - 1_000_000
        // The database's clock is an hour behind ours.
        message.receivedAt = Timestamp.now.microseconds - 3_600_000_000
        return message
    }

    /// What is recorded of one batch.
    private func spans(
        of messages: [IncomingMessage],
        ratio: Double,
        outages: Int = 0,
        sinks: [TracedSink],
        member: TraceMember? = TraceMember(path: "traceparent")
    ) async -> [FinishedSpan] {
        let spans = SpanCollection()
        let queue = IngestQueue()
        for (index, message) in messages.enumerated() { queue.submit([message], from: sinks[index % sinks.count]) }
        queue.finish()
        let service = IngestService(
            queue: queue,
            writers: [TracedWriter(outages: outages)],
            metrics: Metrics(senders: [], categories: [], handlers: [], version: "test"),
            logger: .quiet,
            clock: TimeSource(now: { .now }, sleep: { _ in }, random: { 1 }),
            tracing: MessageTracing(
                tracer: spans.tracer(ratio: ratio),
                sampler: TraceSampler(ratio: ratio),
                member: member,
                senderIDs: ["1234567890"]
            )
        )
        await service.run()
        return spans.queue.take()
    }

    private func named(_ name: String, _ spans: [FinishedSpan]) -> [FinishedSpan] { spans.filter { $0.name == name } }

    @Test("A batch is one span from its first message to its last ack, with its transactions, acks and messages")
    func batch() async throws {
        let sink = TracedSink(.sent)
        let messages = [message(7), message(8, traceparent: Self.sampled), message(9, traceparent: Self.unsampled)]
        let spans = await spans(of: messages, ratio: 1, outages: 1, sinks: [sink])
        let store = try #require(named("store 1234567890", spans).first)
        #expect(spans.last?.context == store.context)
        #expect(store.parent == nil && store.kind == .consumer)
        #expect(store.text(.system) == "xmpp" && store.text(.operationType) == "process")
        #expect(store.attributes.get(SpanAttributeName.messageCount.rawValue) == .int64(3))
        // Two of the three are recorded: the third belongs to a trace that is not.
        let links = store.links.compactMap(\.context.traceContext)
        #expect(
            links.map(\.trace) == [
                messages[0].messageKey, Self.key,
            ]
        )
        let commits = named("COMMIT", spans)
        #expect(commits.map(\.status?.code) == [.error, nil])
        #expect(commits[0].text(.errorType) == "57P03" && !"\(commits)".contains("FAKE-DETAIL"))
        let ack = try #require(named("ack 1234567890", spans).first)
        #expect(ack.kind == .client && ack.text(.operationType) == "settle" && ack.text(.outcome) == "sent")
        #expect((commits + [ack]).allSatisfy { $0.parent?.span == store.context.span })
        let receives = named("receive 1234567890", spans)
        #expect(receives.map(\.context.trace) == links.map(\.trace))
        #expect(receives[0].parent == nil && receives[0].context.span == links[0].span)
        #expect(receives[1].parent?.span == 0xB7AD_6B71_6920_3331)
        #expect(receives.allSatisfy { $0.links.compactMap(\.context.traceContext) == [store.context] })
        #expect(receives.map { $0.text(.messageID) } == [messages[0], messages[1]].map(\.messageKey.description))
        #expect(receives.allSatisfy { $0.text(.outcome) == "stored" })
        #expect((receives + [store]).allSatisfy { (1_000_000..<60_000_000_000).contains($0.end - $0.start) })
        #expect(spans.count == 6)
    }

    @Test("A copy that is known is a child of its message's span, not another one with the same id")
    func duplicate() async throws {
        let spans = await spans(of: [message(7, isKnown: true)], ratio: 1, sinks: [TracedSink(.sent)])
        let receive = try #require(named("receive 1234567890", spans).first)
        let root = TraceContext(messageKey: Digest128(high: 0x1234, low: 7), isSampled: true)
        #expect(receive.parent == root && receive.context.span != root.span && receive.text(.outcome) == "duplicate")
    }

    @Test("Nothing is recorded of a batch without a sampled message, and its connections see no trace")
    func unsampled() async {
        let sink = TracedSink(.sent)
        let messages = [message(7), message(9, traceparent: Self.unsampled)]
        #expect(await spans(of: messages, ratio: 0, sinks: [sink]).isEmpty)
        #expect(sink.hasTrace.withLock { $0 } == [false])
        // One that is sampled by its device is enough, whatever the ratio; unless devices are not listened to.
        #expect(await spans(of: messages + [message(8, traceparent: Self.sampled)], ratio: 0, sinks: [sink]).count == 4)
        let deaf = await spans(of: [message(8, traceparent: Self.sampled)], ratio: 0, sinks: [sink], member: nil)
        #expect(deaf.isEmpty)
    }

    @Test("Each connection's acks have their own span; a connection that is gone ends it as an error")
    func acks() async {
        let sinks = [TracedSink(.sent), TracedSink(nil), TracedSink(.kept)]
        let spans = await spans(of: (1...6).map { message($0) }, ratio: 1, sinks: sinks)
        let acks = named("ack 1234567890", spans)
        #expect(Set(acks.compactMap { $0.text(.outcome) }) == ["sent", "connection_gone", "kept"])
        #expect(acks.count { $0.status?.code == .error } == 1)
        #expect(named("receive 1234567890", spans).count { $0.status?.code == .error } == 2)
        #expect(spans.last?.name == "store 1234567890")
    }

    @Test("A batch has no more links than spans may have")
    func manyLinks() async {
        let spans = await spans(of: (1...300).map { message($0) }, ratio: 1, sinks: [TracedSink(.sent)])
        #expect(named("store 1234567890", spans).map(\.links.count) == [128])
        #expect(spans.count == 128 + 3)
    }
}
