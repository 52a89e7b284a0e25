import Dispatcher
import Ingest
import Logging
import SimulatedDatabase
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
    var lease = Duration.seconds(60)
    /// The most deliveries in memory for a handler, of each of two kinds.
    var capacity = 2_000
    /// The account's server if it is a standard one.
    var standard: StandardAccount.Shape?
}

/// One worker process: the real parts from decrypted bytes to the store's port and back, as the composition root joins
/// them.
// Sendable: on the simulation's one thread.
final class SimulatedWorker: @unchecked Sendable {
    let process: Int
    /// Its name in the database.
    let name: String
    let metrics: Metrics
    private let scheduler: Scheduler
    private let queue: IngestQueue
    private let ingest: IngestService
    private let sender: SenderService
    private let dispatch: DispatchService
    private let deliveries: SimulatedDeliveryStore
    private var receiving: Task<Void, Never>?
    private(set) var hasEnded = false
    var activity: [HandlerActivity] { dispatch.activity }

    /// A worker on a machine that has not started.
    init(_ simulation: Simulation, process: Int, machine: Int) {
        let (scheduler, shape, database) = (simulation.scheduler, simulation.plan.shape, simulation.database)
        let (handlers, network, world) = (simulation.handlers, Unchecked(simulation.network), Unchecked(simulation))
        (self.scheduler, self.process) = (scheduler, process)
        name = "worker-\(process)"
        let random = RandomSource(seed: simulation.plan.seed ^ UInt64(process) << 40, for: "worker")
        let time = scheduler.timeSource(random)
        let monotonic: @Sendable () -> MonotonicTime = { scheduler.monotonic }
        let moment = { @Sendable in ClockReading.Moment(wall: world.value.wallTime(machine), monotonic: monotonic()) }
        let clock = DatabaseClock(moment(), monotonic: monotonic)
        let stamps = SimulatedWriter.Stamps(clock, moment: moment)
        metrics = Metrics(
            senders: [Account.senderID],
            categories: [],
            handlers: handlers.kinds.map(\.name),
            version: "simulation"
        )
        deliveries = SimulatedDeliveryStore(database, worker: name)
        queue = IngestQueue(writers: shape.writers, batchLimit: shape.batchLimit, clock: time)
        let judge = simulation.judge
        let logger = Logger(label: "simulation") { _ in
            judge.trace.isOn ? TraceLog(judge, process: process) as any LogHandler : SwiftLogNoOpLogHandler()
        }
        var settings = DispatchSettings()
        settings.lease = shape.lease
        settings.drain = Simulation.grace / 5
        settings.owner = name
        settings.capacity = shape.capacity
        dispatch = DispatchService(
            store: deliveries,
            registrations: handlers.registrations(time),
            senderIDs: [Account.senderID],
            settings: settings,
            metrics: metrics,
            logger: logger,
            clock: time
        ) { [deliveries] in await handlers.execute($0, $1, deliveries, time) }
        ingest = IngestService(
            queue: queue,
            writers: (0..<shape.writers).map { [name] _ in
                SimulatedWriter(database, worker: name, senders: [Account.senderID], stamps: stamps)
            },
            metrics: metrics,
            logger: logger,
            clock: time,
            intake: dispatch.intake,
            stamps: clock
        )
        let arrivals = ArrivalClock(wall: { clock.now() }, monotonic: monotonic)
        var environment = Connection.Environment(ingest: queue, clock: arrivals, metrics: metrics)
        environment.random = random
        var sending = Self.settings(shape.standard)
        sending.connections = shape.connections
        sending.transport = { _, _, eventLoop in network.value.connect(eventLoop, of: process) }
        sender = SenderService(
            settings: sending,
            group: SimulatedEventLoopGroup(scheduler, process: process, count: shape.loops),
            environment: environment,
            logger: logger
        )
    }

    private static func settings(_ standard: StandardAccount.Shape?) -> SenderSettings {
        var stream = StreamSettings(senderID: Account.senderID, domain: Account.domain)
        stream.username = stream.address
        stream.window = Account.usualWindow
        if let standard {
            (stream.dialect, stream.allowsPlain, stream.username) = (.xmpp, true, Account.senderID)
            stream.trustedFrom = ["*@\(Account.domain)"]
            stream.resource = "worker"
            (stream.serverQueue, stream.resume) = (standard.queue, standard.resume)
            var payload = PlainPayload.strict
            payload.ack = .receipt
            stream.payload = .plain(payload)
        }
        var settings = SenderSettings(
            stream,
            host: Account.domain,
            port: 5235,
            security: .direct(context),
            secret: { Array("secret".utf8) }
        )
        settings.fetchesOffline = standard != nil
        return settings
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
        let executor = ProcessExecutor(scheduler, process: process)
        let dispatching = Task(executorPreference: executor) { [dispatch] in await dispatch.run() }
        let storing = Task(executorPreference: executor) { [ingest] in await ingest.run() }
        let receiving = Task(executorPreference: executor) { [dispatch, sender] in
            await dispatch.waitUntilSubscribed()
            await sender.run()
        }
        self.receiving = receiving
        Task(executorPreference: executor) { [self] in
            // In the order of the composition root: what was read is committed and acked, then handlers end.
            await receiving.value
            queue.finish()
            await storing.value
            dispatch.beginShutdown()
            await dispatching.value
            await deliveries.close()
            hasEnded = true
        }
    }

    /// Begins the orderly shutdown (SIGTERM).
    func shutDown() { scheduler.run(as: process) { receiving?.cancel() } }
}
