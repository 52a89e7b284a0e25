import HTTPTypes
import Synchronization

/// The answers of a kind that are sent while they are made, and go on for long: so many at once, and a share of them each.
final class StreamPlaces: Sendable {
    /// The most at once.
    let limit: Int
    /// The most of one who asks.
    let share: Int

    private let name: String
    private let instead: String
    private let taken = Mutex<[String: Int]>([:])

    /// Places for a kind of answer.
    ///
    /// - Parameters:
    ///   - limit: The most at once; a quarter of them is the most for one who asks.
    ///   - name: What they are, for the answer where there is none.
    ///   - instead: What to do then.
    init(_ limit: Int, _ name: String, instead: String) {
        (self.limit, self.name, self.instead) = (limit, name, instead)
        share = max(1, limit / 4)
    }

    /// One place, which is given up when the value goes: also where the answer is never sent.
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

    /// Takes a place for whoever reads in this task.
    ///
    /// - Throws: A ``Problem`` with status 503 where there is none.
    /// - Returns: The place.
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
            throw Problem(
                .serviceUnavailable,
                "too-many-streams",
                "Too many streams",
                "at most \(limit) \(name) run at once, \(share) of them yours: end one, or \(instead)",
                headers: [.retryAfter: "10"]
            )
        }
        return Place(self, reader)
    }
}
