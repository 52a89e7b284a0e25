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
    package static let retry = Backoff(initial: .milliseconds(50), maximum: .seconds(2))

    private let queue: IngestQueue
    private let writers: [any MessageWriter]
    private let metrics: Metrics
    private let logger: Logger
    private let intake: (any DeliveryIntake)?

    /// A service over the given writers.
    ///
    /// - Parameters:
    ///   - queue: Where connections submit.
    ///   - writers: One for each transaction that may run at the same time: as many as the queue has lines.
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
        await withTaskGroup(of: Void.self) { group in
            for (index, writer) in writers.enumerated() {
                group.addTask(executorPreference: writer.executor) {
                    await write(with: writer, line: index % queue.lines)
                }
            }
        }
    }

    private func write(with writer: any MessageWriter, line: Int) async {
        while let batch = await queue.next(line: line) {
            metrics.batchMessages.observe(Double(batch.messages.count))
            await commit(batch, with: writer)
            if Task.isCancelled { return }
        }
    }

    private func commit(_ batch: consuming IngestBatch, with writer: any MessageWriter) async {
        var plan = CommitPlan(count: batch.messages.count)
        var action = plan.begin()
        var isDown = false
        let begun = ContinuousClock.now
        while true {
            let range: Range<Int>
            switch action {
            case .done:
                return
            case .commit(let next):
                range = next
            case .quarantine(let index):
                batch.quarantine(index, reason: .databaseRefused, detail: "PostgreSQL refused the row for its content")
                range = index..<index + 1
            case .wait(let attempt, let next):
                let delay = Self.retry.delay(attempt: attempt, random: .random(in: 0.5...1))
                guard (try? await Task.sleep(for: delay)) != nil else { return }
                range = next
            }
            do throws(StoreError) {
                try await tryCommit(range, of: batch, with: writer, since: begun)
                if isDown {
                    isDown = false
                    logger.event(.notice, .databaseRecovered, "the database commits again", [.batch: .int(range.count)])
                }
                action = plan.committed()
            } catch {
                metrics.databaseErrors[DatabaseErrorClass(sqlState: error.sqlState)].increment()
                if error.kind == .refused {
                    logRefusal(error, count: range.count)
                    action = plan.refused()
                } else {
                    if !isDown { logOutage(error, count: range.count) }
                    isDown = true
                    action = plan.unavailable()
                }
            }
        }
    }

    private func tryCommit(
        _ range: Range<Int>,
        of batch: IngestBatch,
        with writer: any MessageWriter,
        since begun: ContinuousClock.Instant
    ) async throws(StoreError) {
        let isWhole = range.count == batch.messages.count
        let messages = isWhole ? batch.messages : Array(batch.messages[range])
        let start = ContinuousClock.now
        let offer = offer(for: messages.count, after: start - begun)
        let outcomes: [StoreOutcome]
        do throws(StoreError) {
            outcomes = try await writer.commit(messages, leasing: offer, isRetry: false)
        } catch {
            intake?.withdrawn(offer)
            throw error
        }
        metrics.commitDuration.observe((ContinuousClock.now - start) / .seconds(1))
        count(messages, outcomes)
        intake?.committed(offer, messages: messages, outcomes: outcomes)
        batch.settle(range)
    }

    /// The lease to insert deliveries under.
    ///
    /// None after an outage: should an earlier try have committed though its reply was lost, then the rows carry that try's
    /// lease, which may have ended, and whoever claims them would run them side by side with us.
    private func offer(for count: Int, after elapsed: Duration) -> LeaseOffer {
        guard let intake else { return .none }
        let offer = intake.offer(for: count)
        guard offer.duration > .zero, elapsed > offer.duration / 3 else { return offer }
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
