import UpstreamKit
package import Vocabulary

/// Messages for one transaction, with the connections that delivered them.
package struct IngestBatch: Sendable {
    /// The copies, in arrival order.
    package private(set) var messages: [IncomingMessage] = []
    /// The bytes of all of them.
    package private(set) var bytes = 0
    /// When the first of them was submitted.
    let since: ContinuousClock.Instant
    /// Who delivered them: runs of ``messages``, in order.
    private var runs: [(sink: any AckSink, count: Int)] = []

    init(capacity: Int, since: ContinuousClock.Instant) {
        messages.reserveCapacity(capacity)
        self.since = since
    }

    mutating func append(_ message: IncomingMessage, from sink: any AckSink) {
        bytes += message.bytes.count
        messages.append(message)
        if let last = runs.indices.last, runs[last].sink === sink {
            runs[last].count += 1
        } else {
            runs.append((sink, 1))
        }
    }

    /// Appends a later batch.
    mutating func append(_ batch: IngestBatch) {
        bytes += batch.bytes
        messages += batch.messages
        runs += batch.runs
    }

    /// Whether one of the messages is of this kind.
    func contains(_ isWanted: (borrowing IncomingMessage) -> Bool) -> Bool {
        // Read in place: a copy of a message would retain its bytes.
        let messages = messages.span
        for index in messages.indices where isWanted(messages[index]) { return true }
        return false
    }

    /// Splits the batch in two, keeping the order: those that `isHeld` names go to the second.
    func split(_ isHeld: (borrowing IncomingMessage) -> Bool) -> (free: IngestBatch, held: IngestBatch) {
        var free = IngestBatch(capacity: messages.count, since: since)
        var held = IngestBatch(capacity: 0, since: since)
        var index = 0
        for run in runs {
            for _ in 0..<run.count {
                if isHeld(messages[index]) {
                    held.append(messages[index], from: run.sink)
                } else {
                    free.append(messages[index], from: run.sink)
                }
                index += 1
            }
        }
        return (free, held)
    }

    /// Tells each connection, in one call, which of its copies are settled.
    package func settle(_ range: Range<Int>) { settle(range, nil) }

    /// The same for a batch with spans.
    func settle(_ range: Range<Int>, _ trace: BatchTrace.Part?) {
        // The common case on a quiet worker, and the only one with a single connection.
        if runs.count == 1 {
            return runs[0].sink.settled(SettledCopies(range.isEmpty ? [] : [range], of: messages, trace))
        }
        var shares: [(sink: any AckSink, ranges: [Range<Int>])] = []
        var start = 0
        for run in runs {
            let part = (start..<start + run.count).clamped(to: range)
            start += run.count
            guard !part.isEmpty else { continue }
            if let known = shares.firstIndex(where: { $0.sink === run.sink }) {
                shares[known].ranges.append(part)
            } else {
                shares.append((run.sink, [part]))
            }
        }
        for share in shares { share.sink.settled(SettledCopies(share.ranges, of: messages, trace)) }
    }

    /// Marks a copy for `quarantine`, after the database rejected its content.
    package mutating func quarantine(_ index: Int, reason: QuarantineReason, detail: StaticString) {
        messages[index].quarantine = reason
        messages[index].quarantineDetail = detail
    }
}
