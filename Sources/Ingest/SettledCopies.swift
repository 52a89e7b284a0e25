package import Vocabulary

/// The copies of a committed batch that one connection delivered.
///
/// The batch's own array with the ranges of these copies: nothing is copied or retained per message on the way back.
package struct SettledCopies: Sendable {
    @usableFromInline let batch: [IncomingMessage]
    /// Ascending, non-empty parts of the batch.
    @usableFromInline let ranges: [Range<Int>]
    package let count: Int
    /// The span of their acks; nil if none is recorded.
    package let trace: AckTrace?

    package init(_ messages: [IncomingMessage]) {
        self.init(messages.isEmpty ? [] : [messages.indices], of: messages)
    }

    /// Some elements of a batch: ascending, non-empty ranges.
    init(_ ranges: [Range<Int>], of batch: [IncomingMessage], _ trace: BatchTrace.Part? = nil) {
        (self.batch, self.ranges) = (batch, ranges)
        count = ranges.reduce(0) { $0 + $1.count }
        self.trace = trace?.acks(ranges, count: count)
    }

    /// Calls `body` with each copy's index, in order of arrival; the batch is borrowed, as messages would be copied.
    @inlinable
    package func visit(_ body: (_ batch: Span<IncomingMessage>, _ index: Int) -> Void) {
        let batch = batch.span
        for range in ranges {
            for index in range { body(batch, index) }
        }
    }

    /// The copies as their own array, for a caller that keeps them.
    package var messages: [IncomingMessage] { ranges.flatMap { batch[$0] } }
}
