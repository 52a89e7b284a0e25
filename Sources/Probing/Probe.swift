package import Vocabulary

/// One step of `check --connect`.
package struct Probe: Sendable {
    package enum Result: Sendable, Equatable {
        case passed(detail: String)
        /// It works, but something is probably a mistake: what, and the fix.
        case warned(cause: String, fix: String)
        /// It doesn't work: why, the fix, and the exit code.
        case failed(cause: String, fix: String, status: ExitStatus)
        case skipped
    }

    /// The subject of the step: `connect`, `TLS`, `SASL`.
    package var name: String
    /// Whether later steps are pointless if it fails.
    package var isNeeded: Bool
    package var run: @Sendable () async -> Result

    /// A step that `run` performs within a bounded time.
    package init(_ name: String, isNeeded: Bool = false, _ run: @escaping @Sendable () async -> Result) {
        (self.name, self.isNeeded, self.run) = (name, isNeeded, run)
    }
}

/// The steps about one subject: the database, a sender, or a handler.
package struct ProbeSequence: Sendable {
    package struct Outcome: Sendable, Equatable {
        package var step: String
        package var result: Probe.Result
    }

    /// The subject: `database`, `sender 1234567890`.
    package var subject: String
    package var steps: [Probe]

    package init(_ subject: String, _ steps: [Probe]) {
        (self.subject, self.steps) = (subject, steps)
    }

    /// Runs the steps, telling `onOutcome` each outcome at once; after the failure of a needed one, the rest is
    /// skipped.
    @discardableResult
    package func run(onOutcome: (Outcome) -> Void = { _ in }) async -> [Outcome] {
        var outcomes: [Outcome] = []
        var isStopped = false
        for step in steps {
            let outcome = Outcome(step: step.name, result: isStopped ? .skipped : await step.run())
            if case .failed = outcome.result, step.isNeeded { isStopped = true }
            onOutcome(outcome)
            outcomes.append(outcome)
        }
        return outcomes
    }
}
