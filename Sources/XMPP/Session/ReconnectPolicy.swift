import Vocabulary

/// When a connection slot may connect again (docs/protocol.md, How a stream ends): a pure value, one for each slot.
package struct ReconnectPolicy: Sendable {
    /// How a connection ended, or why another one is wanted.
    package enum Ending: Sendable, Equatable {
        /// It never became a bound stream.
        case failed
        /// It was bound for this long, and ended without a stream error, or with this one, from either side.
        case session(bound: Duration, error: StreamErrorCondition?)
        /// It was resumed, and the server heard nothing of what we sent.
        case unheard
        /// It was to go on with a session that the server has given up: a new one is wanted.
        case unresumed
        /// We ended it because of what the peer sent, with or without stanzas before.
        case violated(afterStanzas: Bool)
        /// It is draining after having been bound for this long: a replacement is wanted.
        case draining(bound: Duration)
    }

    /// A session that stayed bound for this long counts as working.
    package static let workingSession = Duration.seconds(10)
    package static let first = Duration.seconds(1)
    package static let maximum = Duration.seconds(60)
    /// The least delay after a failure: even with the smallest jitter there is no hot loop.
    package static let minimum = Duration.milliseconds(100)
    /// The least delay after `conflict`: two workers that take the resource from each other do so slowly.
    package static let conflict = Duration.seconds(5)

    /// How often a session that can be resumed is tried without backing off.
    static let promptResumptions = 3

    /// The failures since the last working session.
    package private(set) var failures = 0
    /// The tries to resume since the last working session.
    private var resumptions = 0

    package init() {}

    /// The delay before the next attempt, given a random number in 0..<1.
    ///
    /// After a working session: zero. After a failure: exponential with full jitter, a random part of 1, 2, 4 … 60
    /// seconds. A session that ends with `policy-violation`, `conflict` or `see-other-host` is a failure however long
    /// it was. One that we ended for bad XML counts as the first failure each time if stanzas came before it: anyone
    /// who may write to the account may be the cause, and must not delay the others' messages for long. A draining
    /// connection is replaced at once; the second in a row that drained before it worked backs off. So is one that was
    /// not heard, or not resumed.
    ///
    /// A session that the server holds for the time `held` is tried at once and twice more within two seconds, and never
    /// later than it is held.
    package mutating func delay(after ending: Ending, held: Duration? = nil, random: Double) -> Duration {
        if case .session(let bound, let error) = ending, bound >= ReconnectPolicy.workingSession {
            resumptions = 0
            if error == nil { failures = 0 }
        }
        guard let held, held > .zero else { return backedOff(after: ending, random: random) }
        resumptions += 1
        guard resumptions > ReconnectPolicy.promptResumptions else {
            return resumptions == 1 ? .zero : ReconnectPolicy.prompt.delay(attempt: 1, random: random)
        }
        let delay = backedOff(after: ending, random: random)
        // Half of it: signing in takes time as well. Not after a stream: a server that drops each soon would be hurried.
        return ending == .failed ? min(delay, max(held / 2, ReconnectPolicy.minimum)) : delay
    }

    private mutating func backedOff(after ending: Ending, random: Double) -> Duration {
        switch ending {
        case .draining(let bound) where bound >= ReconnectPolicy.workingSession:
            failures = 0
            return .zero
        case .draining, .unheard, .unresumed:
            failures += 1
            return failures == 1 ? .zero : backOff(random)
        case .session(_, .conflict):
            failures += 1
            let jitter = backOff(random)
            return min(ReconnectPolicy.conflict + jitter, ReconnectPolicy.maximum)
        case .session(let bound, let error)
        where bound >= ReconnectPolicy.workingSession && error != .policyViolation && error != .seeOtherHost:
            failures = 0
            return .zero
        case .violated(afterStanzas: true):
            failures = 1
            return backOff(random)
        case .session, .failed, .violated(afterStanzas: false):
            failures += 1
            return backOff(random)
        }
    }

    private static let prompt = Backoff(initial: first, maximum: first, minimum: minimum)
    private static let backoff = Backoff(initial: first, maximum: maximum, minimum: minimum)

    private func backOff(_ random: Double) -> Duration {
        ReconnectPolicy.backoff.delay(attempt: failures, random: random)
    }
}
