import Logging
import NIOCore
import Synchronization
import Telemetry
import Vocabulary
import XMLWire
import XMPP

/// Fetches what a standard server has stored offline (XEP-0013), before our presence has it send all at once.
///
/// ejabberd ends a session whose queue its own store overflows, and returns the messages. Here they come over a connection
/// without presence, by the page, each removed once it is committed. It has the usual resource: beside another one a server
/// returns what a dead session had not acknowledged. What devices write to its full address is received like any message.
/// Several workers at once get copies.
final class OfflineRetrieval: Sendable {
    private enum State {
        /// The server was not asked yet. To `offered`, `refused`.
        case unknown
        /// It has flexible retrieval.
        case offered
        /// It has none: it is not asked again.
        case refused
    }

    /// A walk through the store over one connection.
    private struct Fetch {
        var walk: OfflineWalk
        /// When it was found not to be empty, by the monotonic clock, and when that was last told; nil before.
        var since: UInt64?
        var told: UInt64?
    }

    private let state = Mutex(State.unknown)
    private let clock: ArrivalClock
    private let logger: Logger

    init(clock: ArrivalClock, logger: Logger) { (self.clock, self.logger) = (clock, logger) }

    var isWanted: Bool { state.withLock { if case .refused = $0 { false } else { true } } }

    var isOffered: Bool { state.withLock { if case .offered = $0 { true } else { false } } }

    /// The settings of its connection, given those of the one that is to follow.
    static func settings(_ shared: SharedSettings) -> SharedSettings {
        var settings = shared.value
        settings.stream.purpose = .store
        settings.stream.resume = .zero
        let messageLimit = settings.limits.stanzaBytes + OfflineRequest.wrapping
        settings.stream.messageLimit = messageLimit
        settings.limits.stanzaBytes = max(messageLimit, OfflineRequest.stanzaLimit)
        settings.limits.skipsLongStanzas = true
        // The list's own elements are the stanza and its query.
        settings.limits.elements = max(settings.limits.elements, OfflineRequest.listLimit + 2)
        return SharedSettings(settings)
    }

    /// Reads the store over such a connection and closes that; calls a function with the number of messages removed if
    /// the connection was gone before the end.
    func run(over connection: Connection, _ walk: OfflineWalk, lost: @escaping @Sendable (Int) -> Void) {
        run(over: connection, Fetch(walk: walk), lost: lost)
    }

    private func run(over connection: Connection, _ fetch: Fetch, lost: @escaping @Sendable (Int) -> Void) {
        connection.ask(fetch.walk.request).whenSuccess { [self] answer in
            var fetch = fetch
            guard let answer else {
                logEnd(fetch)
                return lost(fetch.walk.removed)
            }
            let step = fetch.walk.answered(answer)
            if step == .ask, case .count(let count) = answer { tell(count, &fetch) }
            // A server that has had it has it, whatever it answers now.
            state.withLock { state in
                if step != .notOffered { state = .offered } else if case .unknown = state { state = .refused }
            }
            switch step {
            case .ask: return run(over: connection, fetch, lost: lost)
            case .done, .notOffered: break
            case .tooLong: fail("more than \(OfflineRequest.listLimit) messages, or long addresses")
            case .stuck: fail("it is long, and what is asked for does not come")
            case .refused(let condition): fail(condition.rawValue)
            }
            logEnd(fetch)
            connection.shutDown()
        }
    }

    /// Logs how long the store is: at first, and once a minute.
    private func tell(_ count: Int, _ fetch: inout Fetch) {
        let now = clock.monotonic()
        if let told = fetch.told, now &- told < Duration.seconds(60).nanoseconds { return }
        (fetch.since, fetch.told) = (fetch.since ?? now, now)
        let words: StaticString = "fetching what the server has stored offline, before the login"
        logger.event(.notice, .offlineReading, words, [.count: .int(count)])
    }

    private func logEnd(_ fetch: Fetch) {
        guard let since = fetch.since else { return }
        let time = Duration.nanoseconds(Int64(clamping: clock.monotonic() &- since))
        let fields: LogFields = [.count: .int(fetch.walk.removed), .durationSeconds: .seconds(time)]
        logger.event(.notice, .offlineRead, "fetched what the server had stored offline", fields)
    }

    private func fail(_ reason: String) {
        let words: StaticString = "cannot fetch what the server has stored offline: it sends that all at once"
        logger.event(.warning, .offlineFailed, words, [.error: .string(reason)])
    }
}

/// How often in a row a connection was lost before the offline store was read to its end, as a pure value.
struct LostFetches {
    private static let limit = 3

    private var count = 0

    /// Whether to read the store before the next login: not before one, after several that were lost.
    mutating func mayFetch() -> Bool {
        guard count < Self.limit else {
            count = 0
            return false
        }
        return true
    }

    /// Notes that the store was read, as far as it is to be.
    mutating func done() { count = 0 }

    /// Notes that a bound stream was lost.
    ///
    /// What was removed does not come again, so the next one gets further; but not for ever. A server that has answered
    /// nothing is not asked again at once.
    mutating func lost(removed: Int, isOffered: Bool) {
        count = removed > 0 || isOffered ? count + 1 : Self.limit
    }
}
