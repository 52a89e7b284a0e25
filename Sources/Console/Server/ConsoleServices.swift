package import Logging

/// The dependencies of routes.
package struct ConsoleServices: Sendable {
    package let reader: ReadPool
    /// One reading session for `/readyz` alone, which reports on the database and not on those who use the others.
    package let probe: ReadPool
    /// Sessions that may write; for actions.
    package let writer: ReadPool
    /// One writing session for slow work: plans of replays, and frozen selections.
    ///
    /// Such work queues here, and nothing else waits for it.
    package let planner: ReadPool
    package let settings: ConsoleSettings
    package let logger: Logger
    /// Names for hidden fingerprints.
    let aliases: Aliases

    package init(
        reader: ReadPool,
        probe: ReadPool? = nil,
        writer: ReadPool,
        planner: ReadPool? = nil,
        settings: ConsoleSettings,
        logger: Logger
    ) {
        self.reader = reader
        self.probe = probe ?? reader
        self.writer = writer
        self.planner = planner ?? writer
        self.settings = settings
        self.logger = logger
        aliases = Aliases(isHiding: !settings.showsPayloads)
    }
}

/// The console's configuration, as far as routes need it.
package struct ConsoleSettings: Sendable {
    /// Whether messages are shown with their data, or only with their metadata.
    package var showsPayloads = true
    /// The most bytes in a request's body.
    package var bodyLimit = 64 << 10
    package var version: String

    package init(version: String) { self.version = version }
}
