import Synchronization

/// The progress of a run, for display.
package final class ReplayProgress: Sendable {
    /// A snapshot.
    package struct View: Sendable, Equatable {
        /// How many messages there are.
        package var planned: Int64 = 0
        /// How many are done.
        package var done: Int64 = 0
        /// How many of those were skipped.
        package var skipped: Int64 = 0
        /// Why it does not send, as progress shows it; nil while it sends.
        package var waiting: String?
    }

    private let state = Mutex(View())

    package init() {}

    /// The present progress.
    package var view: View { state.withLock { $0 } }

    /// Says why the run does not send.
    package func note(_ waiting: String) { set { $0.waiting = waiting } }

    func set(_ change: (inout View) -> Void) {
        state.withLock { change(&$0) }
    }
}
