package enum ReplayState: String, CaseIterable, Sendable, Codable {
    /// Its selection is frozen; nothing has been sent.
    case planned
    /// The holder of its lease sends.
    case running
    /// Nothing is sent until it is resumed.
    case paused
    case finished
    case cancelled
    /// Ended by its runner because the target failed; can be continued.
    case failed
}

/// A person's decision about a replay; its runner ends it by itself.
package enum ReplayEvent: String, CaseIterable, Sendable {
    case start
    /// Starts it from its first message, whatever has been sent.
    case startAgain
    case pause
    case resume
    case cancel
}

package enum ReplayTransition: Sendable, Equatable {
    case become(ReplayState)
    case restart
    case stay
    /// It stays as it is; the text says why and what to do instead.
    case refuse(String)
}

extension ReplayState {
    /// Whether it blocks other replays to the same target.
    package var isActive: Bool { self == .running || self == .paused }

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
        case (.finished, .pause), (.finished, .resume), (.finished, .cancel): .refuse("already finished")
        case (.cancelled, .start), (.cancelled, .startAgain), (.cancelled, .pause), (.cancelled, .resume):
            .refuse("its selection is deleted; plan another replay")
        }
    }
}
