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
/// while a writer is busy, arrivals collect, and when it is free it takes all of them up to its limit.
///
/// Each writer has a line of its own, and all messages of a device stand in the same one: two transactions that commit at
/// the same time never hold messages of one device, so these become visible in the order of their arrival, which is what
/// handlers with `ordering: device` are promised.
package final class IngestQueue: Sendable {
    private struct Line {
        /// Each connection's submissions, oldest first.
        ///
        /// `head` saves moving the rest down at each take.
        var runs: [(sink: any AckSink, messages: [IncomingMessage])] = []
        var head = 0
        var count = 0
        var waiters: [CheckedContinuation<Void, Never>] = []

        mutating func append(_ messages: [IncomingMessage], from sink: any AckSink) {
            runs.append((sink, messages))
            count += messages.count
        }

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

    private struct State {
        var lines: [Line]
        var isFinished = false
    }

    /// How many lines there are.
    package let lines: Int

    private let state: Mutex<State>

    /// An empty queue.
    ///
    /// - Parameter lines: One for each writer.
    package init(lines: Int = 1) {
        self.lines = max(1, lines)
        state = Mutex(State(lines: Array(repeating: Line(), count: self.lines)))
    }

    /// Hands over what one connection has read.
    ///
    /// Never blocks; called once for each socket read.
    package func submit(_ messages: [IncomingMessage], from sink: any AckSink) {
        if lines == 1 { return append(messages, to: 0, from: sink) }
        // Mostly one message is read at a time; for more, what stands in line together is handed over together.
        if messages.count == 1 { return append(messages, to: line(of: messages[0]), from: sink) }
        var parts: [[IncomingMessage]] = Array(repeating: [], count: lines)
        for message in messages { parts[line(of: message)].append(message) }
        for (line, part) in parts.enumerated() where !part.isEmpty { append(part, to: line, from: sink) }
    }

    private func line(of message: borrowing IncomingMessage) -> Int {
        // A digest's bits are as good as any: devices spread evenly.
        Int(truncatingIfNeeded: message.deviceKey.low % UInt64(lines))
    }

    private func append(_ messages: [IncomingMessage], to line: Int, from sink: any AckSink) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.lines[line].append(messages, from: sink)
            return state.lines[line].waiters.popLast()
        }
        waiter?.resume()
    }

    /// The next batch of a line: everything that waits, up to `limit` messages; nil once the queue is finished and the
    /// line empty.
    ///
    /// Who takes from a line while another batch of it is being committed gives up the order of devices.
    package func next(limit: Int, line: Int = 0) async -> IngestBatch? {
        while true {
            let (batch, isFinished) = state.withLock { state in
                (state.lines[line].count > 0 ? state.lines[line].take(limit) : nil, state.isFinished)
            }
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
                if state.lines[line].count > 0 || state.isFinished { return true }
                state.lines[line].waiters.append(continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
