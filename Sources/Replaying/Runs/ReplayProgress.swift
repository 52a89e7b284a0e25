import Synchronization

/// The progress of a run, for display.
package final class ReplayProgress: Sendable {
    package struct View: Sendable, Equatable {
        package var planned: Int64 = 0
        package var done: Int64 = 0
        package var skipped: Int64 = 0
        /// The reason for not sending, for display; nil while it sends.
        package var waiting: String?
    }

    private let state = Mutex(View())

    package init() {}

    package var view: View { state.withLock { $0 } }

    package func set(_ change: (inout View) -> Void) { state.withLock { change(&$0) } }
}
