/// One step of `check --connect`.
package struct Probe: Sendable {
    /// What a step found.
    package enum Result: Sendable, Equatable {
        /// It works.
        case passed(detail: String)
        /// It doesn't: why, what to do about it, and which exit code says so.
        case failed(cause: String, fix: String, status: ExitStatus)
        /// Not tried, for a step before it failed.
        case skipped
    }

    /// What is tried, for people: `connect`, `TLS`, `SASL`.
    package var name: String
    /// Tries it, within a bounded time.
    package var run: @Sendable () async -> Result

    package init(_ name: String, _ run: @escaping @Sendable () async -> Result) {
        self.name = name
        self.run = run
    }
}

/// Steps that each need the one before, all about one thing: the database, or a sender.
package struct ProbeSequence: Sendable {
    /// A step that has been run.
    package struct Outcome: Sendable, Equatable {
        /// The step's name.
        package var step: String
        /// What it found.
        package var result: Probe.Result
    }

    /// What the steps are about: `database`, `sender 1234567890`.
    package var subject: String
    /// The steps.
    package var steps: [Probe]

    package init(_ subject: String, _ steps: [Probe]) {
        self.subject = subject
        self.steps = steps
    }

    /// Runs the steps until one fails; the rest is skipped.
    package func run() async -> [Outcome] {
        var outcomes: [Outcome] = []
        var hasFailed = false
        for step in steps {
            let result = hasFailed ? .skipped : await step.run()
            if case .failed = result { hasFailed = true }
            outcomes.append(Outcome(step: step.name, result: result))
        }
        return outcomes
    }
}
