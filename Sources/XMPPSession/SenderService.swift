package import Logging
package import NIOPosix
import Telemetry

/// Keeps one sender's connections open while it runs.
///
/// Each of the `connections` slots has one stream at a time, and beside it those that are draining. Cancelling `run()`
/// is the orderly shutdown (G7): every connection stops reading, acks committed messages, sends `</stream:stream>` and
/// closes; then `run()` returns.
package struct SenderService: Sendable {
    private let settings: SenderSettings
    private let group: MultiThreadedEventLoopGroup
    private let environment: Connection.Environment
    private let logger: Logger

    /// A service for one sender; the logger has the field `sender` already.
    package init(
        settings: SenderSettings,
        group: MultiThreadedEventLoopGroup,
        environment: Connection.Environment,
        logger: Logger
    ) {
        self.settings = settings
        self.group = group
        self.environment = environment
        self.logger = logger
    }

    /// Runs until cancelled; returns when every connection has closed.
    package func run() async {
        let slots = slots
        await withTaskCancellationHandler {
            for slot in slots { slot.start() }
            for slot in slots { await slot.ended }
        } onCancel: {
            for slot in slots { slot.shutDown() }
        }
    }

    /// The connections' slots; they share their settings unless these differ.
    private var slots: [ConnectionSlot] {
        var settings = settings
        settings.stream.version = environment.metrics.version
        let shared = SharedSettings(settings)
        let gate = OpeningGate()
        return (0..<settings.connections).map { slot in
            let resource = settings.stream.resource(ofSlot: slot, among: settings.connections)
            var own = shared
            if resource != settings.stream.resource {
                var settings = settings
                settings.stream.resource = resource
                own = SharedSettings(settings)
            }
            return ConnectionSlot(settings: own, on: group.next(), environment: environment, gate: gate, logger: logger)
        }
    }
}
