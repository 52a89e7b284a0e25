import Dispatcher
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// Puts a replay's messages into the queues of its handlers.
///
/// A step moves the replay's position and inserts the deliveries in one transaction: a killed run continues after the
/// committed steps, with nothing skipped and nothing queued twice.
enum HandlerFeed {
    struct Step: Sendable, Equatable {
        /// Why nothing was done, unless the lease was valid.
        var ending: ReplayRunner.Ending?
        var done: Int64 = 0
        var skipped: Int64 = 0
    }

    /// Queues `count` messages (above 0) from a position on: in rows, or in blocks of a worker that also gets their bodies,
    /// as many as fit its offer's bytes, at least one.
    ///
    /// The lease fences the step, and a step from anywhere but the run's position does nothing.
    ///
    /// - Returns: How far the run is now, or that the lease is not valid; and the blocks' messages: nil if this call put
    ///   nothing, or nobody knows what, into blocks.
    static func step(
        _ connection: isolated PostgresConnection,
        _ lease: ReplayLease,
        from position: Int64,
        count: Int64,
        to offer: LeaseOffer? = nil
    ) throws(PostgresError) -> (step: Step, messages: [ReplayedMessage]?) {
        try connection.transaction { connection throws(PostgresError) in
            let step = FeedStatements.Step(lease: lease, position: position, count: count)
            guard var moved = try connection.run(FeedStatements.advance, step).firstRow(taken) else {
                // Another runner has the lease, or the step committed and its reply was lost.
                let now = try connection.run(LeaseStatements.progress(lease)).firstRow(taken)
                // Less than the end if the step was cut.
                guard let now, now.done > position, now.done <= step.end else {
                    return (Step(ending: try lease.loss(connection)), nil)
                }
                return (now, nil)
            }
            var messages: [ReplayedMessage]?
            var count = count
            let queued: Int64
            if let offer, try !connection.run(FeedStatements.needsRows, step).value(Bool.self) {
                var cut: Int64?
                let found = try connection.run(FeedStatements.pack, .init(step: step, offer: offer))
                    .map { row throws(PostgresError) in
                        let message = try ReplayedMessage(&row)
                        cut = try row.next(Int64?.self)
                        return message
                    }.compactMap(\.self)
                queued = Int64(found.count)
                messages = found
                if let cut {
                    try connection.run(FeedStatements.retreat(step.end - cut, lease))
                    moved.done -= step.end - cut
                    count = cut - position
                }
            } else {
                queued = try connection.run(FeedStatements.queue, step).value()
                if queued > 0 { connection.notifyAfterCommit(DeliveryBell.channel) }
            }
            if queued < count {
                try connection.run(FeedStatements.skip(count - queued, lease))
                moved.skipped += count - queued
            }
            return (moved, messages)
        }
    }

    private static func taken(done: Int64, skipped: Int64) -> Step { Step(done: done, skipped: skipped) }
}

extension ReplayedMessage {
    /// Reads a row of ``FeedStatements/pack``.
    fileprivate init?(_ row: inout PostgresRow) throws(PostgresError) {
        let handler = try row.next(String.self)
        let (key, receivedAt) = (try row.next(Digest128.self), try row.next(Timestamp.self))
        guard let message = try UpstreamMessage(&row, key, receivedAt) else { return nil }
        self.init(handler: handler, message: message)
    }
}
