package import Logging
package import Postgres
import Querying
package import UpstreamConfiguration

/// What routes need.
package struct ConsoleServices: Sendable {
    package let reader: ConsoleReader
    /// Sessions that read at the primary, whatever `database.read_url` says: what runs now, and PostgreSQL's counters.
    package let primary: ReadPool
    /// One session where the console reads, for `/readyz` alone, which reports on the database and not on those who use the others.
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

    /// Sessions to one database, `sessions` of which read, and as many at its `standby` if there is one.
    package init(
        reading: PostgresSettings,
        standby: PostgresSettings? = nil,
        sessions: Int,
        writing: PostgresSettings,
        settings: ConsoleSettings,
        logger: Logger
    ) {
        primary = ReadPool(reading, size: sessions)
        probe = ReadPool(standby ?? reading, size: 1)
        reader = ConsoleReader(
            standby.map { ReadPool($0, size: sessions) } ?? primary,
            primary: standby == nil ? nil : primary
        )
        writer = ReadPool(writing, size: 2, isReadOnly: false)
        planner = ReadPool(writing, size: 1, isReadOnly: false)
        (self.settings, self.logger) = (settings, logger)
        aliases = Aliases(isHiding: !settings.showsPayloads)
        sight = Sight(tokens: false, payloads: settings.showsPayloads)
        feeds = MessageFeeds(reader, showsPayloads: settings.showsPayloads)
    }

    package func close() async {
        for pool in [reader.pool, primary, probe, writer, planner] { await pool.close() }
    }
}

/// The console's configuration, as far as routes need it.
package struct ConsoleSettings: Sendable {
    /// Whether messages are shown with their data, or only with their metadata.
    package var showsPayloads = true
    package var version: String
    /// The environment's name and colour, which every page shows; nil for none.
    package var name: String?
    package var colour: ConsoleConfiguration.Colour?

    package init(version: String) { self.version = version }
}
