package import Logging
package import Postgres
import Querying

/// What routes need.
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
    /// What is shown to a reader who asks for no registration token.
    let sight: Sight
    let bell = JobBell()
    let feeds: MessageFeeds
    let history = RateHistory()
    let exports = StreamPlaces(32, "exports", instead: "wait until one has ended")
    /// Limited, since each stream queries the database twice a second.
    let jobStreams = StreamPlaces(50, "streams of jobs", instead: "ask for jobs/{id} now and then")

    package init(
        reader: ReadPool,
        probe: ReadPool? = nil,
        writer: ReadPool,
        planner: ReadPool? = nil,
        settings: ConsoleSettings,
        logger: Logger
    ) {
        (self.reader, self.probe, self.writer, self.planner) = (reader, probe ?? reader, writer, planner ?? writer)
        (self.settings, self.logger) = (settings, logger)
        aliases = Aliases(isHiding: !settings.showsPayloads)
        sight = Sight(tokens: false, payloads: settings.showsPayloads)
        feeds = MessageFeeds(reader, showsPayloads: settings.showsPayloads)
    }

    /// Sessions to one database, `sessions` of which read.
    package init(
        reading: PostgresSettings,
        sessions: Int,
        writing: PostgresSettings,
        settings: ConsoleSettings,
        logger: Logger
    ) {
        self.init(
            reader: ReadPool(reading, size: sessions),
            probe: ReadPool(reading, size: 1),
            writer: ReadPool(writing, size: 2, isReadOnly: false),
            planner: ReadPool(writing, size: 1, isReadOnly: false),
            settings: settings,
            logger: logger
        )
    }

    /// Ends the sessions.
    package func close() async {
        for pool in [reader, probe, writer, planner] { await pool.close() }
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
