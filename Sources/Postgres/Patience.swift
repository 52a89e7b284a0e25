import Glibc

/// How long to wait for a statement: until its limit, then a while for the cancellation to take effect.
///
/// The limit is enforced here as well as by the server's `statement_timeout`, which a vanished server can't enforce and
/// which can't be set behind a pooler in transaction mode.
struct Patience {
    enum Step: Equatable {
        /// Wait on.
        case wait
        /// Ask the server to cancel, then wait on.
        case cancel
        /// The connection is of no use.
        case giveUp
    }

    private let grace: Int64
    private var deadline: Int64
    /// Whether the server was asked to cancel.
    private(set) var hasCancelled = false
    private let now: () -> Int64

    /// Starts now.
    ///
    /// - Parameters:
    ///   - limit: The statement's limit in milliseconds.
    ///   - grace: How long a cancellation may take, in milliseconds.
    ///   - now: The monotonic clock in milliseconds.
    init(_ limit: Int, grace: Int, now: @escaping () -> Int64 = monotonicMilliseconds) {
        // The server's own limit, where it has one, comes first.
        deadline = now() + Int64(limit) + 1_000
        self.grace = Int64(grace)
        self.now = now
    }

    /// What to do before the next wait.
    mutating func next(isCancelled: Bool) -> Step {
        let isLate = now() >= deadline
        if hasCancelled { return isLate ? .giveUp : .wait }
        guard isLate || isCancelled else { return .wait }
        hasCancelled = true
        deadline = now() + grace
        return .cancel
    }

    /// The time to the next step, for `poll`.
    var milliseconds: Int32 { Int32(clamping: max(1, deadline - now())) }
}

/// The monotonic clock in milliseconds.
func monotonicMilliseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
}
