import NIOCore
import Querying
import UpstreamKit
import Vocabulary

/// One client's stream: first older messages, then the feed's.
struct MessageStream: Sendable {
    /// The silence after which it sends a comment.
    static let heartbeat = Duration.seconds(15)
    /// How long a write may wait for the client.
    static let patience = Duration.seconds(30)
    /// How many keys it remembers from catching up, so that it doesn't send the feed's copies.
    private static let sentLimit = 20_000
    /// How often catching up is repeated for what was committed meanwhile, before the feed takes over.
    private static let rounds = 20

    let services: ConsoleServices
    let feed: MessageFeed
    let place: MessageFeed.Subscription
    let filter: MessageFilter
    /// Where to resume; nil to begin with the latest messages.
    let position: TailPosition?
    /// The number of latest messages.
    let limit: Int
    let out: StreamOutput
    /// When it ends, so that the client authenticates anew; random, so that streams don't end all at once.
    var end = ContinuousClock.now + .seconds(.random(in: 270...330))

    /// Writes events until the client leaves, the console stops, or the client is too slow.
    ///
    /// - Throws: ``StalledClient`` if the client stopped reading, and errors of writing and of the database.
    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await feed.drive() }
            group.addTask { try await watch() }
            group.addTask { try await send() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Wakes a silent or expired stream, and gives up on a client that stopped reading.
    private func watch() async throws {
        while true {
            try await Task.sleep(for: .seconds(1))
            if out.stall > Self.patience { throw StalledClient() }
            if out.silence >= Self.heartbeat || .now >= end { place.wake() }
        }
    }

    private func send() async throws {
        try await out.write(": messages as they commit\nretry: 2000\n\n")
        var sent: Set<MessageKey> = []
        let next: Int
        if let position {
            next = try await catchUp(from: position, &sent)
        } else {
            next = try await begin(&sent)
        }
        if !place.hasEnded { try await follow(from: next, sent) }
    }

    // MARK: Before the feed

    /// Sends the latest messages, as `messages tail` does.
    ///
    /// - Returns: The number of the feed's next batch.
    private func begin(_ sent: inout Set<MessageKey>) async throws -> Int {
        let (start, next) = feed.present
        if limit > 0 {
            var pager = MessagePager(filter, .newestFirst, limit: limit)
            pager.byteLimit = AnswerBounds.beginning
            let page = try await services.reader.next(pager).page
            try await write(page, (0..<page.count).reversed(), &sent)
        }
        if let start { try await out.write(FeedBatch.event(start)) }
        return next
    }

    /// Sends everything since a position, at the client's pace.
    ///
    /// - Returns: The number of the feed's next batch.
    private func catchUp(from start: TailPosition, _ sent: inout Set<MessageKey>) async throws -> Int {
        let (oldest, present) = try await services.reader.withConnection {
            (try await MessageTail.oldest($0), try await MessageTail.moment($0))
        }
        if let oldest, oldest > start.at { try await out.write(FeedBatch.event(.dropped(start.at..<oldest))) }
        guard start.at - start.overlap <= present.at else {
            // What has come since is earlier than what was shown, and can't be told from it.
            let gap = FeedBatch.event(gap: present.at..<start.at, "the database's clock was set back")
            try await out.write(gap)
            return try await begin(&sent)
        }
        var since = start
        var next = place.first
        for _ in 1...Self.rounds {
            // The feed's batches from here on hold what is committed after this round's reading.
            next = feed.end
            let now = try await services.reader.withConnection { try await MessageTail.moment($0) }
            var pager = MessagePager(filter, .oldestFirst, limit: 1_000)
            (pager.byteLimit, pager.since) = (AnswerBounds.part, since)
            var (pages, isFull) = (0, true)
            while isFull, !place.hasEnded {
                let (following, page) = try await services.reader.next(pager)
                try await write(page, 0..<page.count, &sent)
                (pager, isFull) = (following, page.isFull)
                pages += 1
            }
            // Not after a round that was cut short: its unsent rows would lie before the position.
            guard !place.hasEnded else { break }
            since = now
            try await out.write(FeedBatch.event(now))
            if pages <= 1 || .now >= end { break }
        }
        return next
    }

    private func write(
        _ page: MessagePage,
        _ rows: some Sequence<Int>,
        _ sent: inout Set<MessageKey>
    ) async throws {
        var lines = MessageLines(.ndjson, tokens: false, payloads: services.sight.payloads)
        var text = ByteBuffer()
        if sent.count > Self.sentLimit { sent = [] }
        for row in rows {
            guard let key = page[row]?.cursor.messageKey, sent.insert(key).inserted else { continue }
            FeedBatch.append(page, row, &lines, to: &text)
        }
        try await out.write(text)
    }

    // MARK: The feed

    private func follow(from first: Int, _ sent: Set<MessageKey>) async throws {
        let chosen = FeedFilter(filter)
        var (next, sent, positions) = (first, sent, 0)
        place.wake()
        for await _ in place.signals {
            if .now >= end { return }
            batches: while !place.hasEnded {
                let batch: FeedBatch
                switch feed.look(from: next) {
                case .batch(let found, let following): (batch, next) = (found, following)
                case .nothing: break batches
                case .behind: return try await out.write(Self.behind)
                }
                if batch.isStale { try await out.write(FeedBatch.stale) }
                if let gap = batch.gap { try await out.write(FeedBatch.event(gap)) }
                try await out.write(batch.text(chosen) { sent.isEmpty || !sent.contains($0) })
                guard let position = batch.position else { continue }
                try await out.write(FeedBatch.event(position))
                positions += 1
                // A whole overlap was read since the stream began: no message comes twice any more.
                if positions > 1 { sent = [] }
            }
            if out.silence >= Self.heartbeat { try await out.write(": still here\n\n") }
        }
    }

    /// The last event if the client reads more slowly than messages arrive; without a line after it, none would be seen.
    static let behind =
        "event: behind\n"
        + #"data: {"detail":"messages arrived faster than this connection took them: go on from the last position"}"#
        + "\n\n"
}
