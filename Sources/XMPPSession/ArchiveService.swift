import Ingest
import Logging
import NIOCore
import Synchronization
import Telemetry
import Vocabulary
import XMLWire
import XMPP

/// Catches up from a sender's archive (XEP-0313): after each bind, and every hour.
///
/// It reads over a stream of its own, without presence: Prosody gives a session that has asked for its archive none of
/// the messages stored offline, and live messages shall not wait behind a page. One worker at a time has the lease.
struct ArchiveService: Sendable {
    /// The time from a bind until the archive is read: what the server had stored offline has come by then.
    static let settling = Duration.seconds(10)
    private static let interval = Duration.seconds(3_600)
    /// The time until it is seen whether another worker, which has the lease, has stopped.
    private static let leaseCheck = Duration.seconds(120)
    private static let retry = Backoff(initial: .seconds(60), maximum: interval, minimum: .seconds(30))
    /// The pause after a page is as long as the page took, within this: at most half of a server's time is taken.
    private static let pause = TimeAmount.milliseconds(15)...TimeAmount.seconds(5)

    private enum Outcome {
        case done
        /// Another worker reads.
        case taken
        case failed
    }

    private let settings: SharedSettings
    private let eventLoop: any EventLoop
    private let environment: Connection.Environment
    private let points: any ArchivePoints
    private let logger: Logger
    private let ticks: ArchiveTicks

    /// A service that runs when ``ticks`` say so, for the account of these settings.
    init(
        _ settings: SenderSettings,
        _ points: any ArchivePoints,
        ticks: ArchiveTicks,
        on eventLoop: any EventLoop,
        environment: Connection.Environment,
        logger: Logger
    ) {
        self.settings = SharedSettings(settings.ofArchive)
        (self.points, self.ticks, self.eventLoop) = (points, ticks, eventLoop)
        (self.environment, self.logger) = (environment, logger)
    }

    private var sender: String { settings.value.stream.senderID }
    private var archive: String { settings.value.stream.address }

    /// Runs until cancelled.
    func run() async {
        var failures = 0
        for await _ in ticks.stream {
            let outcome = await read()
            if Task.isCancelled { break }
            failures = if case .failed = outcome { failures + 1 } else { 0 }
            switch outcome {
            case .done: ticks.tick(in: Self.interval)
            case .taken: ticks.tick(in: Self.leaseCheck)
            case .failed: ticks.tick(in: Self.retry.delay(attempt: failures, random: environment.random.fraction()))
            }
        }
    }

    /// Reads the archive to its end, if no other worker does.
    private func read() async -> Outcome {
        do throws(StoreError) {
            let request: ArchiveRequest
            switch try await points.claim(sender: sender, archive: archive, reader: environment.reader) {
            case .taken: return .taken
            case .first: request = .end
            case .from(let point): request = .after(point, most: ArchiveRequest.shortSize)
            }
            let connection = Connection(settings: settings, on: eventLoop, environment: environment, logger: logger)
            connection.open()
            let outcome = await withTaskCancellationHandler {
                let outcome = await walk(from: request, over: connection)
                connection.shutDown()
                _ = await connection.end.value
                return outcome
            } onCancel: {
                connection.shutDown()
            }
            return try outcome.get()
        } catch {
            return fail(error.message)
        }
    }

    private func walk(
        from request: ArchiveRequest,
        over connection: Connection
    ) async -> Result<Outcome, StoreError> {
        var walk = ArchiveWalk(request)
        do throws(StoreError) {
            while true {
                let begun = eventLoop.now
                guard let answer = await connection.ask(walk.request).value else {
                    return .success(fail("the connection has ended"))
                }
                let took = eventLoop.now - begun
                switch walk.answered(answer, took: .nanoseconds(took.nanoseconds)) {
                case .again:
                    logger.event(.notice, .archivePurged, "the archive has lost our place: reading on from its time")
                case .check: break
                case .fail(let failure): return .success(fail(failure.description))
                case .save(let point, let end):
                    guard try await save(point, end) else { return .success(.taken) }
                    guard end == nil else { return .success(finish(walk, end)) }
                    await rest(after: took)
                }
            }
        } catch {
            return .failure(error)
        }
    }

    private func rest(after page: TimeAmount) async {
        let time = min(max(page, Self.pause.lowerBound), Self.pause.upperBound)
        let timer = eventLoop.scheduleTask(in: time) {}
        await withTaskCancellationHandler {
            try? await timer.futureResult.get()
        } onCancel: {
            timer.cancel()
        }
    }

    private func save(_ point: ArchivePoint, _ end: ArchiveEnd?) async throws(StoreError) -> Bool {
        try await points.save(point, sender: sender, archive: archive, reader: environment.reader, end: end)
    }

    private func finish(_ walk: ArchiveWalk, _ end: ArchiveEnd?) -> Outcome {
        let words: StaticString =
            end == .complete
            ? "caught up from the archive" : "the archive holds more than one run takes; the next goes on"
        logger.event(.info, .archiveRead, words, [.count: .int(walk.results)])
        return .done
    }

    private func fail(_ reason: String) -> Outcome {
        guard !Task.isCancelled else { return .failed }
        logger.event(
            .warning,
            .archiveFailed,
            "cannot read the archive; retrying",
            [.error: .string(reason)]
        )
        return .failed
    }
}

extension SenderSettings {
    /// These settings for a stream that reads the account's archive: without presence, which would take messages from the
    /// worker, and without its resource, which would end its session.
    ///
    /// Its limits are for what surrounds a message: the message itself has those of a live one, and any account may have
    /// written it.
    package var ofArchive: SenderSettings {
        var settings = self
        (settings.stream.purpose, settings.stream.resource, settings.stream.resume) = (.archive, nil, .zero)
        settings.stream.messageLimit = limits.stanzaBytes
        let wrapping = ArchiveRequest.wrapping
        settings.limits.stanzaBytes = max(limits.stanzaBytes + wrapping.bytes, OfflineRequest.stanzaLimit)
        settings.limits.skipsLongStanzas = true
        settings.limits.elements += wrapping.elements
        settings.limits.depth += wrapping.depth
        return settings
    }
}

/// When a sender's archive is to be read next.
final class ArchiveTicks: Sendable {
    let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let eventLoop: any EventLoop
    private let next = Mutex<(due: NIODeadline, timer: Scheduled<Void>)?>(nil)

    init(on eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Has the archive read after this time, unless it is to be read sooner.
    func tick(in delay: Duration) {
        let due = eventLoop.now + TimeAmount(delay)
        let replaced = next.withLock { next -> Scheduled<Void>? in
            if let next, next.due <= due { return nil }
            let timer = eventLoop.scheduleTask(in: TimeAmount(delay)) { [self] in
                self.next.withLock { $0 = nil }
                continuation.yield()
            }
            defer { next = (due, timer) }
            return next?.timer
        }
        replaced?.cancel()
    }
}
