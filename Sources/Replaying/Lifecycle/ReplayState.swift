/// Where a replay stands: the column `state`.
package enum ReplayState: String, CaseIterable, Sendable, Codable {
    /// Its selection is frozen; nothing has been sent.
    case planned
    /// Whoever holds its lease sends.
    case running
    /// Nobody sends until it is resumed.
    case paused
    /// Everything has been sent.
    case finished
    /// Given up by a person; for good.
    case cancelled
    /// Given up by whoever ran it, because the target can't be had; may be started again where it stopped.
    case failed
}

/// What happens to a replay.
package enum ReplayEvent: String, CaseIterable, Sendable {
    /// A person wants it to run, or to go on.
    case start
    /// A person wants it to run from its first message, whatever has been sent.
    case startAgain
    /// A person wants it to stop for now.
    case pause
    /// A person wants it to go on.
    case resume
    /// A person wants it to stop for good.
    case cancel
    /// Its runner has sent everything.
    case finish
    /// Its runner gives it up.
    case fail
}

/// What an event makes of a replay.
package enum ReplayTransition: Sendable, Equatable {
    /// It is in that state from now on.
    case become(ReplayState)
    /// It runs from now on, from its first message.
    case restart
    /// It stays as it is, as was wanted.
    case stay
    /// It stays as it is, and this is why and what to do instead.
    case refuse(String)
}

extension ReplayState {
    /// Whether a replay of this name, or to this target, is in the way of another one.
    package var isActive: Bool { self == .running || self == .paused }

    /// What an event makes of a replay in this state.
    package func transition(on event: ReplayEvent) -> ReplayTransition {
        switch (self, event) {
        case (.planned, .start), (.planned, .startAgain), (.failed, .start), (.failed, .resume): .become(.running)
        case (.paused, .start), (.paused, .resume): .become(.running)
        case (.running, .start), (.running, .resume), (.finished, .start): .stay
        case (.finished, .startAgain), (.failed, .startAgain): .restart
        case (.running, .startAgain), (.paused, .startAgain):
            .refuse("it has not ended: cancel it, or let it come to its end, before it is sent again")
        case (.running, .pause): .become(.paused)
        case (.paused, .pause): .stay
        case (.planned, .pause), (.failed, .pause): .refuse("it is not running")
        case (.planned, .resume): .refuse("it has never run: start it")
        case (.planned, .cancel), (.running, .cancel), (.paused, .cancel), (.failed, .cancel): .become(.cancelled)
        case (.cancelled, .cancel): .stay
        case (.running, .finish): .become(.finished)
        case (.running, .fail): .become(.failed)
        case (_, .finish), (_, .fail): .refuse("it does not run any more")
        case (.finished, .pause), (.finished, .resume), (.finished, .cancel): .refuse("it has finished")
        case (.cancelled, .start), (.cancelled, .startAgain), (.cancelled, .pause), (.cancelled, .resume):
            .refuse("it was cancelled, and its selection is gone: plan another one")
        }
    }
}
