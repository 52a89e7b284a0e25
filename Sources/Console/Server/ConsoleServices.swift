package import Logging

/// What every group of routes is given.
package struct ConsoleServices: Sendable {
    /// Read-only sessions with a statement timeout.
    package let reader: ReadPool
    /// Sessions that may write; for actions.
    package let writer: ReadPool
    /// What was configured.
    package let settings: ConsoleSettings
    /// Where failures are told.
    package let logger: Logger

    package init(reader: ReadPool, writer: ReadPool, settings: ConsoleSettings, logger: Logger) {
        self.reader = reader
        self.writer = writer
        self.settings = settings
        self.logger = logger
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
