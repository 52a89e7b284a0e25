import Synchronization
package import Vocabulary

/// Whether this worker writes the history of attempts, and under which name.
///
/// A settlement never waits for its history: if the statement that writes both is refused (the table is missing or
/// locked, the role lacks the right), the settlement is written without, as are all others for a minute.
package final class AttemptRecording: Sendable {
    /// How long settlements are written without history after a refusal.
    package static let pause = Duration.seconds(60)

    /// This process's name for people: host and process id.
    package let worker: String
    private let isWanted: Bool
    private let suspended = Mutex<ContinuousClock.Instant?>(nil)
    private let onFailure: @Sendable (StoreError) -> Void

    /// A history, if wanted (`retention.attempts` above 0); `onFailure` receives each refusal that suspends it.
    package init(worker: String, isWanted: Bool, onFailure: @escaping @Sendable (StoreError) -> Void = { _ in }) {
        (self.worker, self.isWanted, self.onFailure) = (worker, isWanted, onFailure)
    }

    /// Whether it is written at the moment.
    package var isOn: Bool {
        guard isWanted else { return false }
        return suspended.withLock { until in
            guard let end = until else { return true }
            guard ContinuousClock.now >= end else { return false }
            until = nil
            return true
        }
    }

    /// Settles with history, or without if there is none to write or it is refused.
    ///
    /// `refusal` gives the error to report if the history may be at fault, else nil.
    package func write<T, Failure: Error>(
        isWanted: Bool,
        _ recorded: () throws(Failure) -> T,
        otherwise plain: () throws(Failure) -> T,
        refusal: (Failure) throws(Failure) -> StoreError?
    ) throws(Failure) -> T {
        guard isWanted, isOn else { return try plain() }
        do throws(Failure) {
            return try recorded()
        } catch {
            guard let refused = try refusal(error) else { throw error }
            // The settlement first: if it fails too, the history was not to blame.
            let value = try plain()
            suspend(after: refused)
            return value
        }
    }

    private func suspend(after error: StoreError) {
        let isNew = suspended.withLock { until in
            defer { until = ContinuousClock.now + Self.pause }
            return until == nil
        }
        if isNew { onFailure(error) }
    }
}
