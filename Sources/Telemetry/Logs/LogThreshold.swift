package import Logging
import Synchronization

/// The lowest logged level, shared by loggers; may change while the process runs.
package final class LogThreshold: Sendable {
    private static let levels = Logger.Level.allCases

    private let place: Atomic<Int>

    package init(_ level: Logger.Level) {
        place = Atomic(Self.place(of: level))
    }

    package var level: Logger.Level {
        get { Self.levels[place.load(ordering: .relaxed)] }
        set { place.store(Self.place(of: newValue), ordering: .relaxed) }
    }

    private static func place(of level: Logger.Level) -> Int { levels.firstIndex(of: level) ?? 0 }
}
