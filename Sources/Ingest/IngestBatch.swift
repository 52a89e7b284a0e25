package import Vocabulary

/// Messages for one transaction, with the connections that delivered them.
package struct IngestBatch: Sendable {
    /// The copies, in arrival order.
    package private(set) var messages: [IncomingMessage] = []
    package private(set) var bytes = 0
    package var parsed: MonotonicTime { MonotonicTime(nanoseconds: messages.first?.parsedAt ?? .max) }
    let since: ContinuousClock.Instant
    /// The connections that delivered them: runs of ``messages``, in order.
    private var runs: [(sink: any AckSink, count: Int)] = []

    init(capacity: Int, since: ContinuousClock.Instant) {
        messages.reserveCapacity(capacity)
        self.since = since
    }

    mutating func append(_ message: IncomingMessage, from sink: any AckSink) {
        bytes += message.bytes.count
        messages.append(message)
        extendRun(of: sink, by: 1)
    }

    /// Appends as many messages as fit, but one at least to an empty batch; returns the index after them.
    mutating func append(
        _ more: [IncomingMessage],
        from start: Int,
        of sink: any AckSink,
        upTo limit: Int,
        bytes byteLimit: Int
    ) -> Int {
        // In place, and copied in one piece: one by one there would be two more copies.
        let sizes = more.span
        let most = start + min(more.count - start, limit - messages.count)
        var end = start
        while end < most {
            let size = sizes[end].bytes.count
            guard bytes + size <= byteLimit || messages.isEmpty && end == start else { break }
            bytes += size
            end += 1
        }
        guard end > start else { return start }
        messages.append(contentsOf: more[start..<end])
        extendRun(of: sink, by: end - start)
        return end
    }

    private mutating func extendRun(of sink: any AckSink, by count: Int) {
        if let last = runs.indices.last, runs[last].sink === sink {
            runs[last].count += count
        } else {
            runs.append((sink, count))
        }
    }

    mutating func append(_ batch: IngestBatch) {
        bytes += batch.bytes
        messages += batch.messages
        runs += batch.runs
    }

    /// Takes out the messages of these devices, nil if there are none; both parts keep their order.
    mutating func extract(_ pins: borrowing DevicePins) -> IngestBatch? {
        // Read in place: a copy of a message would retain its bytes.
        let held = messages.indices.filter { pins.holds(messages.span[$0].deviceKey) }
        guard let first = held.first else { return nil }
        var extracted = IngestBatch(capacity: held.count, since: since)
        var kept: [(sink: any AckSink, count: Int)] = []
        var next = 0
        var end = 0
        for run in runs {
            end += run.count
            let before = next
            while next < held.count, held[next] < end {
                extracted.append(messages[held[next]], from: run.sink)
                next += 1
            }
            let left = run.count - (next - before)
            if left > 0 { kept.append((run.sink, left)) }
        }
        // Swapped, not copied.
        next = 0
        var target = first
        for index in first..<messages.count {
            if next < held.count, held[next] == index {
                next += 1
            } else {
                messages.swapAt(target, index)
                target += 1
            }
        }
        messages.removeLast(held.count)
        runs = kept
        bytes -= extracted.bytes
        return extracted
    }

    /// Tells each connection, in one call, which of its copies are settled, with the spans of the batch, if it has any.
    func settle(_ range: Range<Int>, _ outcomes: [StoreOutcome] = [], _ trace: BatchTrace.Part? = nil) {
        let messages = acking(range, outcomes)
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

    /// The copies without the answers of archived ones whose message was known: that was acked, or is with its own copy.
    private func acking(_ range: Range<Int>, _ outcomes: [StoreOutcome]) -> [IncomingMessage] {
        // Read in place: a copy of a message would retain its bytes.
        let span = messages.span
        var known: [Int] = []
        for (index, outcome) in zip(range, outcomes) where outcome != .stored && span[index].isArchived {
            known.append(index)
        }
        guard !known.isEmpty else { return messages }
        var messages = messages
        for index in known { messages[index].answer = .none }
        return messages
    }

    /// Restamps copies by the database's clock, as of when they were parsed, in that order.
    package mutating func stamp(_ range: Range<Int>, by clock: DatabaseClock) {
        var stamps = clock.stamps
        for index in range {
            let parsed = MonotonicTime(nanoseconds: messages[index].parsedAt)
            messages[index].receivedAt = stamps.stamp(parsed: parsed)
        }
    }

    /// Marks a copy for `quarantine`, after the database rejected its content.
    package mutating func quarantine(_ index: Int, reason: QuarantineReason, detail: StaticString) {
        messages[index].quarantine = reason
        messages[index].quarantineDetail = detail
    }

    mutating func clearQuarantine(_ index: Int) {
        messages[index].quarantine = nil
        messages[index].quarantineDetail = ""
    }
}
