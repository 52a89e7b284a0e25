/// One step of `check --connect`.
package struct Probe: Sendable {
    /// What a step found.
    package enum Result: Sendable, Equatable {
        /// It works.
        case passed(detail: String)
        /// It works, and something about it is probably a mistake: what, and what to do about it.
        case warned(cause: String, fix: String)
        /// It doesn't: why, what to do about it, and which exit code says so.
        case failed(cause: String, fix: String, status: ExitStatus)
        /// Not tried, for a step before it failed.
        case skipped
    }

    /// What is tried, for people: `connect`, `TLS`, `SASL`.
    package var name: String
    /// Whether the steps after it make no sense where it fails.
    package var isNeeded: Bool
    /// Tries it, within a bounded time.
    package var run: @Sendable () async -> Result

    /// A step.
    ///
    /// - Parameters:
    ///   - name: What is tried, for people.
    ///   - isNeeded: Whether the steps after it make no sense where it fails.
    ///   - run: Tries it, within a bounded time.
    package init(_ name: String, isNeeded: Bool = false, _ run: @escaping @Sendable () async -> Result) {
        self.name = name
        self.isNeeded = isNeeded
        self.run = run
    }
}

/// Steps about one thing: the database, a sender, or a handler.
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

    /// Everything that `run` will need, in the order in which it needs it: the database, the handlers, the senders; and what the
    /// console serves with.
    package static func all(_ configuration: WorkerConfiguration) -> [ProbeSequence] {
        let session = DatabaseSession(configuration)
        return [.database(session)]
            + configuration.handlers.map { .handler($0, session) }
            + configuration.senders.indices.map { .sender(configuration, index: $0) }
            + (configuration.consoleCertificateFile.map { [.console(certificateFile: $0)] } ?? [])
    }

    /// Runs the steps; where one fails that the others need, they are skipped.
    ///
    /// - Parameter onOutcome: Is told of each as soon as it ends.
    /// - Returns: What each found.
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
