package import Logging
package import NIOPosix
import Telemetry
import XMPP

/// Keeps one sender's connections open while it runs; cancelling `run()` is the orderly shutdown (G7).
package struct SenderService: Sendable {
    private let settings: SenderSettings
    private let group: MultiThreadedEventLoopGroup
    private let environment: Connection.Environment
    private let logger: Logger

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
