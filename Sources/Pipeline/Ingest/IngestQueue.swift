import Synchronization
package import UpstreamKit

/// Messages taken for one transaction, with the connections that delivered them.
package struct IngestBatch: Sendable {
    /// The copies, in arrival order.
    package fileprivate(set) var messages: [IncomingMessage] = []
    /// Who delivered them: runs of ``messages``, in order.
    fileprivate var runs: [(sink: any AckSink, count: Int)] = []

    /// Tells every connection which of its copies are settled, in one call for each connection.
    package func settle(_ range: Range<Int>) {
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
/// while the writers are busy, arrivals collect, and whoever is free next takes all of them up to its limit.
package final class IngestQueue: Sendable {
    private struct State {
        /// Each connection's submissions, oldest first.
        ///
        /// `head` saves moving the rest down at each take.
        var runs: [(sink: any AckSink, messages: [IncomingMessage])] = []
        var head = 0
        var count = 0
        var isFinished = false
        var waiters: [CheckedContinuation<Void, Never>] = []

        mutating func take(_ limit: Int) -> IngestBatch {
            var batch = IngestBatch()
            batch.messages.reserveCapacity(Swift.min(limit, count))
            while batch.messages.count < limit, head < runs.count {
                let room = limit - batch.messages.count
                if runs[head].messages.count <= room {
                    batch.runs.append((runs[head].sink, runs[head].messages.count))
                    batch.messages.append(contentsOf: runs[head].messages)
                    runs[head].messages = []
                    head += 1
                } else {
                    batch.runs.append((runs[head].sink, room))
                    batch.messages.append(contentsOf: runs[head].messages.prefix(room))
                    runs[head].messages.removeFirst(room)
                }
            }
            if head == runs.count {
                runs.removeAll(keepingCapacity: true)
                head = 0
            } else if head > 256 {
                runs.removeFirst(head)
                head = 0
            }
            count -= batch.messages.count
            return batch
        }
    }

    private let state = Mutex(State())

    package init() {}

    /// Hands over what one connection has read.
    ///
    /// Never blocks; called once for each socket read.
    package func submit(_ messages: [IncomingMessage], from sink: any AckSink) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.runs.append((sink, messages))
            state.count += messages.count
            return state.waiters.popLast()
        }
        waiter?.resume()
    }

    /// The next batch: everything that waits, up to `limit` messages; nil once the queue is finished and empty.
    package func next(limit: Int) async -> IngestBatch? {
        while true {
            let (batch, isFinished) = state.withLock { state in
                (state.count > 0 ? state.take(limit) : nil, state.isFinished)
            }
            if let batch { return batch }
            if isFinished { return nil }
            await waitForMessages()
        }
    }

    /// No more will be submitted; writers end once they have taken the rest.
    package func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func waitForMessages() async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.count > 0 || state.isFinished { return true }
                state.waiters.append(continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
