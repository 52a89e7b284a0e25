import Synchronization
package import UpstreamKit

/// Messages for one transaction, with the connections that delivered them.
package struct IngestBatch: Sendable {
    /// The copies, in arrival order.
    package fileprivate(set) var messages: [IncomingMessage] = []
    /// Who delivered them: runs of ``messages``, in order.
    private var runs: [(sink: any AckSink, count: Int)] = []

    fileprivate init(capacity: Int) { messages.reserveCapacity(capacity) }

    fileprivate mutating func append(_ message: IncomingMessage, from sink: any AckSink) {
        messages.append(message)
        if let last = runs.indices.last, runs[last].sink === sink {
            runs[last].count += 1
        } else {
            runs.append((sink, 1))
        }
    }

    /// Tells every connection which of its copies are settled, in one call for each connection.
    package func settle(_ range: Range<Int>) {
        // The common case on a quiet worker, and the only one with a single connection: nothing to sort out.
        if runs.count == 1, range == messages.indices { return runs[0].sink.settled(messages) }
        var shares: [(sink: any AckSink, messages: [IncomingMessage])] = []
        var start = 0
        for run in runs {
            let part = (start..<start + run.count).clamped(to: range)
            start += run.count
            guard !part.isEmpty else { continue }
            if let known = shares.firstIndex(where: { $0.sink === run.sink }) {
                shares[known].messages.append(contentsOf: messages[part])
            } else {
                shares.append((run.sink, Array(messages[part])))
            }
        }
        for share in shares { share.sink.settled(share.messages) }
    }

    /// Marks a copy for `quarantine`, after the database refused its content.
    package mutating func quarantine(_ index: Int, reason: QuarantineReason, detail: StaticString) {
        messages[index].quarantine = reason
        messages[index].quarantineDetail = detail
    }
}

/// What the connections have read and no writer has taken yet.
///
/// Its size is bounded by the connections' in-flight limits, so it needs none of its own. Batches form by themselves:
/// while a writer is busy, arrivals collect, and when it is free it takes all of them up to the limit.
///
/// Each writer has a line of its own, and all messages of a device stand in the same one: two transactions that commit at
/// the same time never hold messages of one device, so these become visible in the order of their arrival, which is what
/// handlers with `ordering: device` are promised.
package final class IngestQueue: Sendable {
    private struct Line {
        /// Batches as they will be taken, the oldest first: all but the last one are full.
        var batches: [IngestBatch] = []
        /// How many messages the batch that was taken last held; the next one will hardly hold more.
        var usual = 0
        var waiters: [CheckedContinuation<Void, Never>] = []

        mutating func append(_ message: IncomingMessage, from sink: any AckSink, limit: Int) {
            if batches.last.map({ $0.messages.count >= limit }) ?? true {
                batches.append(IngestBatch(capacity: usual))
            }
            batches[batches.count - 1].append(message, from: sink)
        }

        mutating func take() -> IngestBatch? {
            guard !batches.isEmpty else { return nil }
            let batch = batches.removeFirst()
            usual = batch.messages.count
            return batch
        }
    }

    private struct State {
        var lines: [Line]
        var isFinished = false
    }

    /// How many lines there are.
    package let lines: Int

    private let batchLimit: Int
    private let state: Mutex<State>

    /// An empty queue.
    ///
    /// - Parameters:
    ///   - lines: One for each writer.
    ///   - batchLimit: The most messages in one batch.
    package init(lines: Int = 1, batchLimit: Int = 500) {
        self.lines = max(1, lines)
        self.batchLimit = max(1, batchLimit)
        state = Mutex(State(lines: Array(repeating: Line(), count: self.lines)))
    }

    /// Hands over what one connection has read.
    ///
    /// Never blocks; called once for each socket read.
    package func submit(_ messages: [IncomingMessage], from sink: any AckSink) {
        var waiters: [CheckedContinuation<Void, Never>] = []
        state.withLock { state in
            for message in messages {
                state.lines[line(of: message)].append(message, from: sink, limit: batchLimit)
            }
            for line in state.lines.indices where !state.lines[line].batches.isEmpty {
                if let waiter = state.lines[line].waiters.popLast() { waiters.append(waiter) }
            }
        }
        for waiter in waiters { waiter.resume() }
    }

    private func line(of message: borrowing IncomingMessage) -> Int {
        // A digest's bits are as good as any: devices spread evenly.
        lines == 1 ? 0 : Int(truncatingIfNeeded: message.deviceKey.low % UInt64(lines))
    }

    /// The next batch of a line: everything that waits, up to the limit; nil where nothing does.
    ///
    /// Who takes from a line while another batch of it is being committed gives up the order of devices.
    package func take(line: Int = 0) -> IngestBatch? {
        state.withLock { $0.lines[line].take() }
    }

    /// The next batch of a line, as soon as there is one; nil once the queue is finished and the line empty.
    package func next(line: Int = 0) async -> IngestBatch? {
        while true {
            let (batch, isFinished) = state.withLock { ($0.lines[line].take(), $0.isFinished) }
            if let batch { return batch }
            if isFinished { return nil }
            await waitForMessages(line)
        }
    }

    /// No more will be submitted; writers end once they have taken the rest.
    package func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            var waiters: [CheckedContinuation<Void, Never>] = []
            for line in state.lines.indices {
                waiters += state.lines[line].waiters
                state.lines[line].waiters = []
            }
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func waitForMessages(_ line: Int) async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if !state.lines[line].batches.isEmpty || state.isFinished { return true }
                state.lines[line].waiters.append(continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
