import Synchronization

/// Limits long-running streamed answers of a kind, in all and per reader.
final class StreamPlaces: Sendable {
    /// The most at once.
    let limit: Int
    /// The most per reader.
    let share: Int

    private let name: String
    private let instead: String
    private let taken = Mutex<[String: Int]>([:])

    /// Makes `limit` places, of which one reader may take a quarter; a refusal names them and says what to do
    /// `instead`.
    init(_ limit: Int, _ name: String, instead: String) {
        (self.limit, self.name, self.instead) = (limit, name, instead)
        share = max(1, limit / 4)
    }

    /// One place, released in `deinit`: also if the answer is never sent.
    final class Place: Sendable {
        private let places: StreamPlaces
        private let reader: String

        fileprivate init(_ places: StreamPlaces, _ reader: String) { (self.places, self.reader) = (places, reader) }

        deinit {
            places.taken.withLock { taken in
                let left = taken[reader, default: 0] - 1
                taken[reader] = left > 0 ? left : nil
            }
        }
    }

    /// Takes a place for this task's reader.
    func take() throws(Problem) -> Place {
        let reader = ReadPool.reader
        let isFree = taken.withLock { taken in
            guard taken.values.reduce(0, +) < limit, reader.isEmpty || taken[reader, default: 0] < share else {
                return false
            }
            taken[reader, default: 0] += 1
            return true
        }
        guard isFree else {
            let most = "at most \(limit) \(name) run at once, \(share) of them yours"
            throw Problem(.tooManyStreams, "\(most): end one, or \(instead)")
        }
        return Place(self, reader)
    }
}
