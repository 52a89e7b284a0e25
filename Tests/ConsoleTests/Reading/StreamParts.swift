import HTTPTypes
import Hummingbird
import IntegrationSupport
import Logging
import NIOCore
import Postgres
import QuerySupport
import Querying
import Synchronization
import Vocabulary

@testable import Console

/// A feed and a stream over it without HTTP, so that a test decides what happens when.
struct StreamParts {
    let database: QueryFixture
    let services: ConsoleServices
    let feed: MessageFeed
    let place: MessageFeed.Subscription

    /// A feed with one place, before it was started.
    ///
    /// - Parameter interval: How often it polls.
    /// - Throws: What the database does.
    init(interval: Duration = .milliseconds(20)) async throws {
        database = try await QueryFixture()
        try await database.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        services = ConsoleServices(
            reading: database.settings,
            sessions: 2,
            writing: database.settings,
            settings: ConsoleSettings(version: "0"),
            logger: Logger(label: "test")
        )
        feed = MessageFeed(MessageFilter(), reader: services.reader, showsPayloads: true, interval: interval)
        place = feed.subscribe {}
    }

    /// A stream at the place.
    func stream(to output: KeptOutput, limit: Int = 0, lifetime: Duration = .seconds(300)) -> MessageStream {
        MessageStream(
            services: services,
            feed: feed,
            place: place,
            filter: MessageFilter(),
            position: nil,
            limit: limit,
            out: StreamOutput(output),
            end: .now + lifetime
        )
    }

    /// Stores a message now.
    func add(_ id: String, data: String = "1") async throws {
        let at = (try await database.admin.databaseTime() - QueryFixture.start).microseconds
        try await database.add([Seed(id: id, data: data, at: at)])
    }

    /// Stores a message now, and polls until it was published.
    func publish(_ id: String) async throws {
        try await add(id)
        let driver = Task { try await feed.drive() }
        var next = place.first
        search: while true {
            switch feed.look(from: next) {
            case .batch(let batch, let following):
                if batch.events.contains(where: { $0.messageID == Array(id.utf8) }) { break search }
                next = following
            case .nothing: await Task.yield()
            case .behind: break search
            }
        }
        driver.cancel()
        _ = await driver.result
    }
}

/// Keeps what a stream writes.
struct KeptOutput: ResponseBodyWriter {
    final class Text: Sendable {
        private let state = Mutex("")
        var value: String { state.withLock { $0 } }
        fileprivate func append(_ buffer: ByteBuffer) { state.withLock { $0 += String(buffer: buffer) } }

        /// Waits until something was written.
        func wait(for part: String) async throws { try await waitUntil { value.contains(part) } }
    }

    let text = Text()

    mutating func write(_ buffer: ByteBuffer) async throws { text.append(buffer) }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
