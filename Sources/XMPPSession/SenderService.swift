package import Logging
package import NIOCore
import Telemetry
import XMPP

/// Keeps one sender's connections open while it runs; cancelling `run()` is the orderly shutdown (G7).
package struct SenderService: Sendable {
    private let slots: [ConnectionSlot]
    /// Reads the account's archive; nil if that is off.
    private let archive: ArchiveService?

    /// A service to run once; its connections share their settings unless these differ.
    package init(
        settings: SenderSettings,
        group: any EventLoopGroup,
        environment: Connection.Environment,
        logger: Logger
    ) {
        var settings = settings
        settings.stream.version = environment.metrics.version
        if settings.catchesUp, let points = environment.archives {
            let ticks = ArchiveTicks(on: group.next())
            settings.archiveTicks = ticks
            archive = ArchiveService(
                settings,
                points,
                ticks: ticks,
                on: group.next(),
                environment: environment,
                logger: logger
            )
        } else {
            archive = nil
        }
        let shared = SharedSettings(settings)
        let gate = OpeningGate()
        slots = (0..<settings.connections).map { [settings] slot in
            let resource = settings.stream.resource(ofSlot: slot, among: settings.connections)
            var own = shared
            if resource != settings.stream.resource {
                var settings = settings
                settings.stream.resource = resource
                own = SharedSettings(settings)
            }
            // What the account has stored is one for all.
            let isReader = slot == 0 && settings.fetchesOffline
            let retrieval = isReader ? OfflineRetrieval(clock: environment.clock, logger: logger) : nil
            return ConnectionSlot(
                settings: own,
                on: group.next(),
                environment: environment,
                gate: gate,
                retrieval: retrieval,
                logger: logger
            )
        }
    }

    /// Runs until cancelled; returns when every connection has closed.
    package func run() async {
        await withTaskCancellationHandler {
            for slot in slots { slot.start() }
            // Ends when cancelled, and so do the slots.
            await archive?.run()
            for slot in slots { await slot.ended }
        } onCancel: {
            for slot in slots { slot.shutDown() }
        }
    }
}
