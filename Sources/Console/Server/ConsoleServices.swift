package import Logging

/// What every group of routes is given.
package struct ConsoleServices: Sendable {
    /// Read-only sessions with a statement timeout.
    package let reader: ReadPool
    /// One session that reads, for `/readyz` alone: it tells of the database, and not of those who use the others.
    package let probe: ReadPool
    /// Sessions that may write; for actions.
    package let writer: ReadPool
    /// One session that may write, for what can take long: plans of replays, and sets that are frozen.
    ///
    /// They wait for each other, and nothing else waits for them.
    package let planner: ReadPool
    /// What was configured.
    package let settings: ConsoleSettings
    /// Where failures are told.
    package let logger: Logger
    /// Names for fingerprints that are not shown.
    let aliases: Aliases

    /// What routes are given.
    ///
    /// - Parameters:
    ///   - reader: Read-only sessions with a statement timeout.
    ///   - probe: A session for `/readyz`; nil where ``reader`` has to do.
    ///   - writer: Sessions that may write.
    ///   - planner: A session for what can take long; nil where ``writer`` has to do.
    ///   - settings: What was configured.
    ///   - logger: Where failures are told.
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

/// What was configured for the console, as far as routes need it.
package struct ConsoleSettings: Sendable {
    /// Whether messages are shown with their data; without it only what describes them is.
    package var showsPayloads = true
    /// The most bytes in the body of a request.
    package var bodyLimit = 64 << 10
    /// The program's version.
    package var version: String

    package init(version: String) { self.version = version }
}
