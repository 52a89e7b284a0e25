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
    /// Wakes the ``JobRunner``; one element stands for any number of wishes.
    let bell = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let feeds: MessageFeeds
    let exports = StreamPlaces(32, "exports", instead: "wait until one has ended")
    /// Limited, since each stream queries the database twice a second.
    let jobStreams = StreamPlaces(50, "streams of jobs", instead: "ask for jobs/{id} now and then")

    /// Sessions to one database, `sessions` of which read.
    package init(
        reading: PostgresSettings,
        sessions: Int,
        writing: PostgresSettings,
        settings: ConsoleSettings,
        logger: Logger
    ) {
        (reader, probe) = (ReadPool(reading, size: sessions), ReadPool(reading, size: 1))
        writer = ReadPool(writing, size: 2, isReadOnly: false)
        planner = ReadPool(writing, size: 1, isReadOnly: false)
        (self.settings, self.logger) = (settings, logger)
        aliases = Aliases(isHiding: !settings.showsPayloads)
        sight = Sight(tokens: false, payloads: settings.showsPayloads)
        feeds = MessageFeeds(reader, showsPayloads: settings.showsPayloads)
    }

    package func close() async {
        for pool in [reader, probe, writer, planner] { await pool.close() }
    }
}

/// The console's configuration, as far as routes need it.
package struct ConsoleSettings: Sendable {
    /// Whether messages are shown with their data, or only with their metadata.
    package var showsPayloads = true
    package var version: String

    package init(version: String) { self.version = version }
}
