import Ingest
import Logging
import NIOCore
import TLSWire
import Telemetry
import Vocabulary
import XMPP
import XMPPSession

/// What a simulated worker's process is configured with.
struct WorkerShape {
    var connections = 2
    var writers = 2
    var batchLimit = 500
    var loops = 1
}

/// One worker process: the real parts from decrypted bytes to the store's port and back, as the composition root joins
/// them.
// Sendable: on the simulation's one thread.
final class SimulatedWorker: @unchecked Sendable {
    let process: Int
    let metrics: Metrics
    private let scheduler: Scheduler
    private let queue: IngestQueue
    private let ingest: IngestService
    private let sender: SenderService
    private var receiving: Task<Void, Never>?
    private(set) var hasEnded = false

    /// A worker that has not started; `clock` is the database's, as this process knows it.
    init(
        _ scheduler: Scheduler,
        process: Int,
        seed: UInt64,
        shape: WorkerShape,
        clock: DatabaseClock,
        writers: [any MessageWriter],
        network: Network
    ) {
        (self.scheduler, self.process) = (scheduler, process)
        let generator = Unchecked(Generator(SplitMix(seed: seed ^ UInt64(process) << 40, for: "worker")))
        let random = RandomSource { generator.value.next() }
        let time = scheduler.timeSource(of: process, random: random)
        let monotonic: @Sendable () -> MonotonicTime = { scheduler.monotonic }
        metrics = Metrics(senders: [Account.senderID], categories: [], handlers: [], version: "simulation")
        queue = IngestQueue(writers: shape.writers, batchLimit: shape.batchLimit, clock: time)
        let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
        ingest = IngestService(
            queue: queue,
            writers: writers,
            metrics: metrics,
            logger: logger,
            clock: time,
            stamps: clock
        )
        let arrivals = ArrivalClock(wall: { clock.now() }, monotonic: monotonic)
        var environment = Connection.Environment(ingest: queue, clock: arrivals, metrics: metrics)
        environment.random = random
        let link = Unchecked(network)
        var settings = Self.settings(window: 100)
        settings.connections = shape.connections
        settings.transport = { _, _, eventLoop in link.value.connect(eventLoop, of: process) }
        sender = SenderService(
            settings: settings,
            group: SimulatedEventLoopGroup(scheduler, process: process, count: shape.loops),
            environment: environment,
            logger: logger
        )
    }

    private static func settings(window: Int) -> SenderSettings {
        var stream = StreamSettings(senderID: Account.senderID, domain: Account.domain)
        stream.username = stream.address
        stream.window = window
        return SenderSettings(
            stream,
            host: Account.domain,
            port: 5235,
            security: .direct(context),
            secret: { Array("secret".utf8) }
        )
    }

    /// Never used, as the transport brings its own security.
    private static let context: TLSContext = {
        do {
            var client = TLSClientConfiguration(serverName: Account.domain)
            client.trust = .pem(try CertificateAuthority().certificatePEM)
            return try TLSContext.client(client)
        } catch {
            fatalError("OpenSSL makes no context: \(error)")
        }
    }()

    /// Starts, in its own process.
    func start() {
        scheduler.run(as: process) {
            receiving = Task { await sender.run() }
            let stored = Task { await ingest.run() }
            Task {
                await receiving?.value
                // In the order of the composition root: what was read is committed and acked before the end.
                queue.finish()
                await stored.value
                hasEnded = true
            }
        }
    }

    /// Begins the orderly shutdown (SIGTERM).
    func shutDown() { scheduler.run(as: process) { receiving?.cancel() } }
}

/// A generator that closures share.
private final class Generator {
    private var base: SplitMix

    init(_ base: SplitMix) { self.base = base }

    func next() -> UInt64 { base.next() }
}
