package import Logging
import NIOCore
package import NIOPosix
package import Pipeline
package import Telemetry
import XMPP

/// Keeps one sender's connections open, for as long as it runs.
///
/// Each of the `connections` slots has one stream at a time, and beside it those that are draining. Cancelling `run()`
/// is the orderly way down (G7): every connection stops reading, acks what has committed, says `</stream:stream>` and
/// closes; then `run()` returns.
package struct SenderService: Sendable {
    private let settings: SenderSettings
    private let group: MultiThreadedEventLoopGroup
    private let ingest: IngestQueue
    private let metrics: Metrics
    private let logger: Logger

    /// A service for one sender.
    ///
    /// - Parameters:
    ///   - settings: The sender's configuration.
    ///   - group: Where its connections run.
    ///   - ingest: Where they hand over what they read.
    ///   - metrics: Where they count.
    ///   - logger: Carries the field `sender` already.
    package init(
        settings: SenderSettings,
        group: MultiThreadedEventLoopGroup,
        ingest: IngestQueue,
        metrics: Metrics,
        logger: Logger
    ) {
        self.settings = settings
        self.group = group
        self.ingest = ingest
        self.metrics = metrics
        self.logger = logger
    }

    /// Runs until cancelled; returns when every connection has closed.
    package func run() async {
        await withTaskGroup(of: Void.self) { slots in
            for slot in 0..<settings.connections {
                slots.addTask { await keepOpen(slot) }
            }
        }
    }

    private func keepOpen(_ slot: Int) async {
        var policy = ReconnectPolicy()
        await withDiscardingTaskGroup { draining in
            while !Task.isCancelled {
                let connection = Connection(settings: settings, on: group.next(), ingest, metrics, logger)
                connection.open()
                let turn = await untilCancelled(connection) { await $0.turn }
                guard !Task.isCancelled else { continue }
                switch turn {
                case .draining:
                    draining.addTask { _ = await untilCancelled(connection) { await $0.ended } }
                    metrics.reconnects[.draining].increment()
                case .ended(let end):
                    let delay = policy.delay(after: end.forReconnect, random: .random(in: 0...1))
                    metrics.reconnects[end.reason].increment()
                    logger.event(
                        delay > .zero ? .warning : .notice,
                        .reconnectScheduled,
                        "the connection ended; connecting again",
                        [.reason: .string(end.reason.text), .delay: .seconds(delay)]
                    )
                    try? await Task.sleep(for: delay)
                }
            }
        }
    }

    /// Waits for something of a connection; on cancellation the connection is shut down, which brings it about.
    private func untilCancelled<Value: Sendable>(
        _ connection: Connection,
        _ value: @Sendable (Connection) async -> Value
    ) async -> Value {
        await withTaskCancellationHandler {
            await value(connection)
        } onCancel: {
            connection.shutDown()
        }
    }
}
