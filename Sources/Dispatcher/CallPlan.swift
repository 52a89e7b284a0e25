/// How the messages of a call are taken: all in one transaction; if that fails, in halves, until those at fault are alone.
///
/// A pure value: it decides, whoever has the transactions acts. After each ``next()`` comes one ``ended(_:)``.
package struct CallPlan: Sendable {
    /// How a transaction with some of the messages ended.
    package enum Outcome: Sendable {
        /// The end of each.
        case ended([AttemptEnd])
        /// Rolled back: only those at these places were still ours.
        case held([Int])
        /// Rolled back, for a reason that may lie in one of them.
        case failed
        /// It took too long, or its outcome is unknown: those without an end go alone, each with its whole time.
        case stopped
    }

    private enum Step {
        case take([Int])
        /// Both halves were taken: whether more are at fault themselves than were before.
        case compare(failures: Int)
    }

    /// What is left to do; the last one is next.
    private var steps: [Step]
    private var ends: [AttemptEnd?]
    /// How many were at fault themselves.
    private var failures = 0
    /// Whether nothing more is to be tried: what stands in the way is no single message's fault.
    private var isStopped = false
    private var areTogether = true

    package init(count: Int) {
        steps = [.take(Array(0..<count))]
        ends = Array(repeating: nil, count: count)
    }

    package var hasAny: Bool { ends.contains { $0 != nil } }

    package var hasSettledAll: Bool { ends.allSatisfy { if case .settled? = $0 { true } else { false } } }

    /// How the messages ended, as far as this is known.
    package var end: CallEnd { CallEnd(ends.map { $0 ?? .alone }, areTogether: areTogether) }

    /// The places of the messages for the next transaction; nil once the call has ended.
    package mutating func next() -> [Int]? {
        while let step = steps.last {
            switch step {
            case .take(let places) where !isStopped && !places.isEmpty: return places
            case .compare(let known) where failures == known: areTogether = false
            case .take, .compare: break
            }
            steps.removeLast()
        }
        return nil
    }

    package mutating func ended(_ outcome: Outcome) {
        guard case .take(let places)? = steps.popLast() else { return }
        switch outcome {
        case .ended(let some):
            for (place, end) in zip(places, some) { note(end, place) }
        case .held(let rest):
            for place in places where !rest.contains(place) { note(.lost, place) }
            steps.append(.take(rest))
        case .failed:
            let middle = places.count / 2
            steps += [.compare(failures: failures), .take(Array(places[middle...])), .take(Array(places[..<middle]))]
        case .stopped: (isStopped, areTogether) = (true, false)
        }
    }

    private mutating func note(_ end: AttemptEnd, _ place: Int) {
        ends[place] = end
        guard case .verdict(let verdict) = end else { return }
        failures += 1
        switch verdict {
        case .unavailable, .interrupted, .cancelled: isStopped = true
        case .done, .retry, .down, .reject, .pause: break
        }
    }
}
