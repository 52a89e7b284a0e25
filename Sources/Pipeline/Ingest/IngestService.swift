package import Logging
package import Telemetry
import UpstreamKit

/// Takes what the connections read, commits it, and settles it with the connection that delivered it.
///
/// The only way from a stanza to its ack: a copy is settled after `commit` has returned, and never otherwise (G1). While
/// the database can't commit, a batch stays here and is tried again; the connections' in-flight limits then stop the
/// reading, so memory stays bounded (G5).
package struct IngestService: Sendable {
    /// How long to wait between attempts while the database can't commit.
    ///
    /// While messages wait, the first commit that is possible again is not to be missed by more than half a second.
    package static let retry = Backoff(initial: .milliseconds(50), maximum: .milliseconds(500))

    private let queue: IngestQueue
    private let writers: [any MessageWriter]
    private let metrics: Metrics
    private let logger: Logger
    private let intake: (any DeliveryIntake)?

    /// A service over the given writers.
    ///
    /// - Parameters:
    ///   - queue: Where connections submit.
    ///   - writers: One for each transaction that may run at the same time: one for each number of the queue's writers.
    ///   - metrics: Where outcomes, durations and errors are counted.
    ///   - logger: For outages and refused rows.
    ///   - intake: The dispatcher of this process; nil where messages only wait in the table for others.
    package init(
        queue: IngestQueue,
        writers: [any MessageWriter],
        metrics: Metrics,
        logger: Logger,
        intake: (any DeliveryIntake)? = nil
    ) {
        self.queue = queue
        self.writers = writers
        self.metrics = metrics
        self.logger = logger
        self.intake = intake
    }

    /// Runs until the queue is finished and everything in it has committed, or until cancelled.
    ///
    /// Cancelling gives up on batches that the database does not take: they stay unacked, and the peer sends them
    /// again.
    package func run() async {
        queue.prepare(writers: writers.count)
        await withTaskGroup(of: Void.self) { watchers in
            if writers.count > 1 { watchers.addTask { [queue] in await queue.watch() } }
            await withTaskGroup(of: Void.self) { group in
                for (index, writer) in writers.enumerated() {
                    group.addTask(executorPreference: writer.executor) {
                        await write(with: writer, number: index)
                    }
                }
            }
            watchers.cancelAll()
        }
    }

    private func write(with writer: any MessageWriter, number: Int) async {
        var pace = CommitPace(largest: queue.mostBytes)
        while let batch = await queue.next(writer: number) {
            metrics.batchMessages.observe(Double(batch.messages.count))
            await commit(batch, with: writer, &pace)
            if Task.isCancelled { break }
        }
        queue.leave(writer: number)
    }

    private func commit(
        _ batch: consuming IngestBatch,
        with writer: any MessageWriter,
        _ pace: inout CommitPace
    ) async {
        var plan: CommitPlan
        if let ceiling = pace.ceiling, batch.bytes > ceiling {
            plan = CommitPlan(sizes: batch.messages.map(\.bytes.count), ceiling: ceiling)
        } else {
            plan = CommitPlan(count: batch.messages.count)
        }
        var action = plan.begin()
        var isDown = false
        let begun = ContinuousClock.now
        while true {
            let range: Range<Int>
            var isRetry = true
            switch action {
            case .done:
                return
            case .commit(let next, let isAgain):
                range = next
                isRetry = isAgain
            case .quarantine(let index, let isAgain):
                batch.quarantine(index, reason: .databaseRefused, detail: "PostgreSQL refused the row for its content")
                range = index..<index + 1
                isRetry = isAgain
            case .wait(let attempt, let next):
                let delay = Self.retry.delay(attempt: attempt, random: .random(in: 0.5...1))
                guard (try? await Task.sleep(for: delay)) != nil else { return }
                range = next
            }
            let start = ContinuousClock.now
            do throws(StoreError) {
                try await tryCommit(range, of: batch, with: writer, isRetry ? start - begun : nil, &pace)
                if isDown {
                    isDown = false
                    logger.event(.notice, .databaseRecovered, "the database commits again", [.batch: .int(range.count)])
                }
                action = plan.committed()
            } catch {
                metrics.databaseErrors[DatabaseErrorClass(sqlState: error.sqlState)].increment()
                guard !Task.isCancelled else { return }
                switch error.kind {
                case .refused:
                    logRefusal(error, count: range.count)
                    action = plan.refused()
                case .unavailable:
                    if !isDown { logOutage(error, count: range.count) }
                    isDown = true
                    action = plan.unavailable()
                case .timedOut:
                    if !isDown { logOutage(error, count: range.count) }
                    isDown = true
                    let sizes = batch.messages.map(\.bytes.count)
                    let ceiling = pace.timedOut(bytes: sizes[range].reduce(0, +), after: .now - start)
                    action = plan.timedOut(sizes: sizes, ceiling: ceiling)
                }
            }
        }
    }

    /// Commits a part of the batch and settles it; `elapsed` is how long ago the batch was begun, nil for a first try.
    ///
    /// - Throws: ``StoreError``, with nothing settled.
    private func tryCommit(
        _ range: Range<Int>,
        of batch: IngestBatch,
        with writer: any MessageWriter,
        _ elapsed: Duration?,
        _ pace: inout CommitPace
    ) async throws(StoreError) {
        let isWhole = range.count == batch.messages.count
        let messages = isWhole ? batch.messages : Array(batch.messages[range])
        let start = ContinuousClock.now
        let offer = offer(for: messages, after: elapsed)
        let outcomes: [StoreOutcome]
        do throws(StoreError) {
            outcomes = try await writer.commit(messages, leasing: offer, isRetry: elapsed != nil)
        } catch {
            intake?.withdrawn(offer)
            throw error
        }
        let duration = ContinuousClock.now - start
        metrics.commitDuration.observe(duration / .seconds(1))
        if pace.ceiling != nil { pace.committed(bytes: messages.reduce(0) { $0 + $1.bytes.count }, after: duration) }
        count(messages, outcomes)
        intake?.committed(offer, messages: messages, outcomes: outcomes)
        batch.settle(range)
    }

    /// The lease to insert deliveries under.
    ///
    /// None for a retry after an outage: should an earlier try have committed though its reply was lost, then the rows carry
    /// that try's lease, which may have ended, and whoever claims them would run them side by side with us.
    private func offer(for messages: [IncomingMessage], after elapsed: Duration?) -> LeaseOffer {
        guard let intake else { return .none }
        let bytes = messages.reduce(0) { $0 + $1.bytes.count + 512 }
        let offer = intake.offer(for: messages.count, bytes: bytes)
        guard let elapsed, offer.duration > .zero, elapsed > offer.duration / 3 else { return offer }
        intake.withdrawn(offer)
        return .none
    }

    /// Books the outcomes before the acks go out, so that no peer learns of one that the metrics don't show (G8).
    private func count(_ messages: [IncomingMessage], _ outcomes: [StoreOutcome]) {
        let categories = metrics.messages.categories
        metrics.messages.settled(count: messages.count) { index in
            // In place: a copy of a message would retain its bytes.
            let settled = messages.span
            let category = settled[index].category.map { categories.index(of: settled[index].bytes, $0.range) }
            return (category ?? CategoryLabels.other, MessageOutcome(outcomes[index]))
        }
    }

    private func logOutage(_ error: StoreError, count: Int) {
        logger.event(
            .error,
            .databaseUnavailable,
            "the database cannot commit; reading pauses and the batch is kept",
            [.batch: .int(count), .sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
        )
    }

    private func logRefusal(_ error: StoreError, count: Int) {
        guard count == 1 else { return }
        logger.event(
            .warning,
            .rowRefused,
            "PostgreSQL refused a row for its content; it goes to quarantine",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
        )
    }
}

extension MessageOutcome {
    /// The metrics' name of what the store reports.
    fileprivate init(_ outcome: StoreOutcome) {
        self =
            switch outcome {
            case .stored: .stored
            case .duplicate: .duplicate
            case .conflict: .conflict
            case .quarantined: .quarantined
            }
    }
}
