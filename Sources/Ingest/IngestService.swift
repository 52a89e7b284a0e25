package import Dispatcher
package import Logging
package import Telemetry
package import Vocabulary

/// Commits what connections have read, and settles it with the connection that delivered it.
///
/// The only way from a stanza to its ack: a copy is settled after `commit` has returned, and never otherwise (G1).
/// While the database can't commit, the batch is kept and retried; the connections' in-flight limits then stop them
/// from reading, so memory stays bounded (G5).
package struct IngestService: Sendable {
    /// The pauses while the database can't commit: short, so that messages are committed soon after it recovers.
    package static let retry = Backoff(initial: .milliseconds(50), maximum: .milliseconds(500))

    private let queue: IngestQueue
    private let writers: [any MessageWriter]
    private let metrics: Metrics
    private let logger: Logger
    private let clock: TimeSource
    private let intake: (any DeliveryIntake)?
    private let tracing: MessageTracing?
    private let stamps: DatabaseClock?

    /// The progress of each writer's loop, for the watchdog; a batch is a step.
    package let progress: [LoopProgress]

    /// Makes a service over writers, numbered as the queue's; `intake` is nil if only other workers dispatch.
    package init(
        queue: IngestQueue,
        writers: [any MessageWriter],
        metrics: Metrics,
        logger: Logger,
        clock: TimeSource = .system,
        intake: (any DeliveryIntake)? = nil,
        tracing: MessageTracing? = nil,
        stamps: DatabaseClock? = nil
    ) {
        (self.queue, self.writers, self.metrics, self.logger, self.clock) = (queue, writers, metrics, logger, clock)
        self.intake = intake
        progress = writers.indices.map { LoopProgress("writer-\($0)") }
        (self.tracing, self.stamps) = (tracing, stamps)
    }

    /// Runs until the queue is finished and everything in it has committed, or until cancelled.
    ///
    /// If cancelled, batches that the database does not take stay unacked, and the peer redelivers them.
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
        var size = AdaptiveBatchSize(largest: queue.mostBytes)
        while let batch = await queue.next(writer: number) {
            progress[number].enter(.working)
            metrics.batchMessages.observe(Double(batch.messages.count))
            await commit(batch, with: writer, &size, progress[number])
            progress[number].enter(.idle)
            if Task.isCancelled { break }
        }
        queue.leave(writer: number)
    }

    private func commit(
        _ batch: consuming IngestBatch,
        with writer: any MessageWriter,
        _ size: inout AdaptiveBatchSize,
        _ progress: LoopProgress
    ) async {
        if let stamps, stamps.hasStepped(since: batch.parsed) {
            batch.stamp(batch.messages.indices, by: stamps)
        }
        var plan: CommitPlan
        if let ceiling = size.ceiling, batch.bytes > ceiling {
            plan = CommitPlan(sizes: batch.messages.map(\.bytes.count), ceiling: ceiling)
        } else {
            plan = CommitPlan(count: batch.messages.count)
        }
        var action = plan.begin()
        var isDown = false
        var refusal: StoreError?
        let begun = clock.now()
        let trace = tracing?.begin(batch)
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
            case .stamp(let next, let isAgain):
                if let stamps { batch.stamp(next, by: stamps) }
                range = next
                isRetry = isAgain
            case .clear(let index, let attempt):
                batch.clearQuarantine(index)
                refusal = nil
                guard await pause(attempt, progress) else { return }
                range = index..<index + 1
            case .wait(let attempt, let next):
                guard await pause(attempt, progress) else { return }
                range = next
            }
            let start = clock.now()
            do throws(StoreError) {
                let elapsed = isRetry ? start - begun : nil
                try await commit(range, of: batch, with: writer, after: elapsed, &size, progress, trace)
                if isDown {
                    isDown = false
                    logger.event(.notice, .databaseRecovered, "the database commits again", [.batch: .int(range.count)])
                }
                if let refused = refusal.take() { logRefusal(refused) }
                action = plan.committed()
            } catch {
                metrics.databaseErrors[error.failureClass].increment()
                guard !Task.isCancelled else { return }
                action = plan.failed(error.kind, batch, range, after: clock.now() - start, &size)
                switch error.kind {
                // Logged once it is in quarantine.
                case .refused: refusal = range.count == 1 ? error : nil
                // The dispatcher reports it, and registers again.
                case .unregistered: break
                // The monitor reports the clocks.
                case .misdated where action.isStamp: break
                case .unavailable, .timedOut, .misdated:
                    if !isDown { logOutage(error, count: range.count) }
                    isDown = true
                }
            }
        }
    }

    /// Waits before another attempt; false if cancelled.
    private func pause(_ attempt: Int, _ progress: LoopProgress) async -> Bool {
        let delay = Self.retry.delay(attempt: attempt, random: 0.5 + clock.random() / 2)
        progress.enter(.awaiting)
        return (try? await clock.sleep(delay)) != nil
    }

    /// Commits a part of the batch and settles it.
    ///
    /// `elapsed` is the time since the batch was begun; nil for the first attempt.
    ///
    /// - Throws: ``StoreError``, with nothing settled.
    private func commit(
        _ range: Range<Int>,
        of batch: IngestBatch,
        with writer: any MessageWriter,
        after elapsed: Duration?,
        _ size: inout AdaptiveBatchSize,
        _ progress: LoopProgress,
        _ trace: BatchTrace?
    ) async throws(StoreError) {
        let isWhole = range.count == batch.messages.count
        let messages = isWhole ? batch.messages : Array(batch.messages[range])
        let start = clock.now()
        let offer = offer(for: messages, bytes: isWhole ? batch.bytes : nil, after: elapsed)
        let outcomes: [StoreOutcome]
        let transaction = trace?.transaction(range.count)
        progress.enter(.awaiting)
        do throws(StoreError) {
            outcomes = try await writer.commit(messages, leasing: offer, isRetry: elapsed != nil)
        } catch {
            progress.enter(.working)
            BatchTrace.ended(transaction, error)
            intake?.withdrawn(offer)
            if error.kind == .unregistered { intake?.registrationLost(of: offer) }
            throw error
        }
        progress.enter(.working)
        BatchTrace.ended(transaction, nil)
        let duration = clock.now() - start
        metrics.commitDuration.observe(duration / .seconds(1))
        if size.ceiling != nil { size.committed(bytes: messages.reduce(0) { $0 + $1.bytes.count }, after: duration) }
        count(messages, outcomes)
        // Acks first: a server may be waiting for them.
        batch.settle(range, outcomes, trace?.part(range, outcomes))
        intake?.committed(offer, messages: messages, outcomes: outcomes)
    }

    /// The lease to insert deliveries under.
    ///
    /// A late retry gets none: if an earlier attempt has committed and only its reply was lost, the rows carry that
    /// attempt's lease. It may have expired, and a worker that then claims them would run them at the same time as this
    /// one.
    private func offer(for messages: [IncomingMessage], bytes: Int?, after elapsed: Duration?) -> LeaseOffer {
        guard let intake else { return .none }
        let bytes = bytes ?? messages.reduce(0) { $0 + $1.bytes.count }
        var offer = intake.offer(for: messages.count, bytes: bytes + messages.count * 512)
        guard let elapsed else { return offer }
        // An earlier attempt may have stored some of them: a block would not hold everything that is handed over.
        offer.packed = []
        guard offer.duration > .zero, elapsed > offer.duration / 3 else { return offer }
        intake.withdrawn(offer)
        return offer.withoutLease
    }

    /// Counts the outcomes before acks are sent: no peer knows of an outcome that the metrics don't show (G8).
    private func count(_ messages: [IncomingMessage], _ outcomes: [StoreOutcome]) {
        let categories = metrics.messages.categories
        metrics.messages.settled(count: messages.count) { index in
            // Read in place: a copy of a message would retain its bytes.
            let settled = messages.span
            let category = settled[index].category.map {
                categories.index(of: UnsafeBufferPointer(rebasing: settled[index].bytes.unsafeBytes[$0.range]))
            }
            return (category ?? CategoryLabels.other, outcomes[index])
        }
    }

    private func logOutage(_ error: StoreError, count: Int) {
        logger.event(
            .error,
            .databaseUnavailable,
            "the database cannot commit: the batch is kept and retried, and reading pauses",
            [.batch: .int(count), .sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
        )
    }

    private func logRefusal(_ error: StoreError) {
        logger.event(
            .warning,
            .rowRefused,
            "PostgreSQL rejected a row because of its content; the message is in quarantine",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
        )
    }
}

extension CommitPlan {
    /// The action after a failed attempt; a timeout also makes later transactions smaller.
    fileprivate mutating func failed(
        _ kind: StoreError.Kind,
        _ batch: IngestBatch,
        _ range: Range<Int>,
        after duration: Duration,
        _ size: inout AdaptiveBatchSize
    ) -> Action {
        switch kind {
        case .refused: return refused()
        case .unavailable, .unregistered: return unavailable()
        case .misdated: return misdated()
        case .timedOut:
            let sizes = batch.messages.map(\.bytes.count)
            let ceiling = size.timedOut(bytes: sizes[range].reduce(0, +), after: duration)
            return timedOut(sizes: sizes, ceiling: ceiling)
        }
    }
}
