/// The state of a replay: the column `state`.
package enum ReplayState: String, CaseIterable, Sendable, Codable {
    /// Its selection is frozen; nothing has been sent.
    case planned
    /// The holder of its lease sends.
    case running
    /// Nothing is sent until it is resumed.
    case paused
    /// Everything has been sent.
    case finished
    /// Cancelled by a person; can't be resumed.
    case cancelled
    /// Ended by its runner because the target failed; can be continued.
    case failed
}

/// An event in the life of a replay.
package enum ReplayEvent: String, CaseIterable, Sendable {
    /// A person starts or continues it.
    case start
    /// A person starts it from its first message, whatever has been sent.
    case startAgain
    /// A person pauses it.
    case pause
    /// A person resumes it.
    case resume
    /// A person cancels it.
    case cancel
    /// Its runner has sent everything.
    case finish
    /// Its runner gives it up.
    case fail
}

package enum ReplayTransition: Sendable, Equatable {
    /// It changes to that state.
    case become(ReplayState)
    /// It runs, from its first message.
    case restart
    /// It already is as requested.
    case stay
    /// It stays as it is; the text says why and what to do instead.
    case refuse(String)
}

extension ReplayState {
    /// Whether it blocks other replays to the same target.
    package var isActive: Bool { self == .running || self == .paused }

    /// The effect of an event on a replay in this state.
    package func transition(on event: ReplayEvent) -> ReplayTransition {
        switch (self, event) {
        case (.planned, .start), (.planned, .startAgain), (.failed, .start), (.failed, .resume): .become(.running)
        case (.paused, .start), (.paused, .resume): .become(.running)
        case (.running, .start), (.running, .resume), (.finished, .start): .stay
        case (.finished, .startAgain), (.failed, .startAgain): .restart
        case (.running, .startAgain), (.paused, .startAgain):
            .refuse("cancel it, or wait until it ends, before sending it again")
        case (.running, .pause): .become(.paused)
        case (.paused, .pause): .stay
        case (.planned, .pause), (.failed, .pause): .refuse("only a running replay can be paused")
        case (.planned, .resume): .refuse("it has never run; start it")
        case (.planned, .cancel), (.running, .cancel), (.paused, .cancel), (.failed, .cancel): .become(.cancelled)
        case (.cancelled, .cancel): .stay
        case (.running, .finish): .become(.finished)
        case (.running, .fail): .become(.failed)
        case (_, .finish), (_, .fail): .refuse("it is no longer running")
        case (.finished, .pause), (.finished, .resume), (.finished, .cancel): .refuse("already finished")
        case (.cancelled, .start), (.cancelled, .startAgain), (.cancelled, .pause), (.cancelled, .resume):
            .refuse("its selection is deleted; plan another replay")
        }
    }
}
