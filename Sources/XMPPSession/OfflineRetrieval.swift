import Logging
import NIOCore
import Synchronization
import Telemetry
import XMLWire
import XMPP

/// Fetches what a standard server has stored offline (XEP-0013), before our presence has it send all at once.
///
/// ejabberd ends a session whose queue its own store overflows, and returns the messages. Here they come over a connection
/// without presence, by the page, each removed once it is committed. It has the usual resource: beside another one a server
/// returns what a dead session had not acknowledged. Several workers at once get copies.
final class OfflineRetrieval: Sendable {
    private enum State {
        /// The server was not asked yet. To `offered`, `refused`.
        case unknown
        /// It has flexible retrieval.
        case offered
        /// It has none: it is not asked again.
        case refused
    }

    private let state = Mutex(State.unknown)
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    var isWanted: Bool { state.withLock { if case .refused = $0 { false } else { true } } }

    var isOffered: Bool { state.withLock { if case .offered = $0 { true } else { false } } }

    /// The settings of its connection, given those of the one that is to follow.
    static func settings(_ shared: SharedSettings) -> SharedSettings {
        var settings = shared.value
        settings.stream.isPresent = false
        settings.stream.resume = .zero
        settings.limits.stanzaBytes = max(settings.limits.stanzaBytes, OfflineRequest.stanzaLimit)
        // The list's own elements are the stanza and its query.
        settings.limits.elements = max(settings.limits.elements, OfflineRequest.listLimit + 2)
        return SharedSettings(settings)
    }

    /// Reads the store over such a connection and closes that; calls a function with the number of messages removed if
    /// the connection was gone before the end.
    func run(over connection: Connection, _ walk: OfflineWalk, lost: @escaping @Sendable (Int) -> Void) {
        connection.stored(walk.request).whenSuccess { [self] answer in
            var walk = walk
            guard let answer else {
                log(walk)
                return lost(walk.removed)
            }
            let step = walk.answered(answer)
            // A server that has had it has it, whatever it answers now.
            state.withLock { state in
                if step != .notOffered { state = .offered } else if case .unknown = state { state = .refused }
            }
            switch step {
            case .ask: return run(over: connection, walk, lost: lost)
            case .done, .notOffered: break
            case .tooLong: fail("more than \(OfflineRequest.listLimit) messages, or long addresses")
            case .outrun: fail("it grows as fast as it is read")
            case .refused(let condition): fail(condition.rawValue)
            }
            log(walk)
            connection.shutDown()
        }
    }

    private func log(_ walk: OfflineWalk) {
        guard walk.removed > 0 else { return }
        let fields: LogFields = [.count: .int(walk.removed)]
        logger.event(.info, .offlineRead, "fetched what the server had stored offline", fields)
    }

    private func fail(_ reason: String) {
        let words: StaticString = "cannot fetch what the server has stored offline: it sends that all at once"
        logger.event(.warning, .offlineFailed, words, [.error: .string(reason)])
    }
}
