import ConfigurationKeys
import Logging
import ServiceLifecycle
import Synchronization
import Telemetry
import TraceExport
import Tracing
import UpstreamConfiguration

/// Records spans, and exports them in the background until everything else has ended.
struct TracingService: Service {
    /// The most time for the rest at the end, if `shutdown.grace` allows it.
    private static let longestFlush = Duration.seconds(2)

    private let tracer: any Tracer
    let pipeline: MessageTracing
    private let queue: SpanQueue
    private let exporter: SpanExporter
    private let client: CollectorClient
    private let flush: Duration

    /// Sets up the tracing without connecting; throws ``WorkerError/unusable(_:)`` if its files can't be used.
    init(
        _ tracing: TracingConfiguration,
        _ configuration: WorkerConfiguration,
        metrics: Metrics,
        logger: Logger
    ) throws(WorkerError) {
        do throws(FileError) {
            _ = try tracing.headers()
        } catch {
            throw .unusable(["tracing.headers_file: \(error.message)"])
        }
        do throws(CollectorFailure) {
            client = try CollectorClient(
                endpoint: tracing.endpoint,
                caFile: tracing.caFile,
                version: metrics.version,
                headers: { try tracing.headers() }
            )
        } catch {
            throw .unusable(["tracing.ca_file: \(error.text)"])
        }
        let sampler = TraceSampler(ratio: tracing.sampleRatio)
        let request = TraceRequest(
            service: tracing.serviceName,
            version: metrics.version,
            instance: DispatchRunner.workerName
        )
        queue = SpanQueue(counts: metrics.spans)
        let tracer = SpanTracer(sampler: sampler, queue: queue)
        self.tracer = tracer
        pipeline = MessageTracing(
            tracer: tracer,
            sampler: sampler,
            member: tracing.traceparent.flatMap(TraceMember.init),
            senderIDs: configuration.senders.map(\.senderID)
        )
        exporter = SpanExporter(
            queue: queue,
            request: request,
            counts: metrics.spans,
            logger: logger,
            send: { [client] in try await client.post($0) }
        )
        flush = min(Self.longestFlush, configuration.shutdownGrace / 10)
    }

    private static let isInstalled = Atomic<Bool>(false)

    /// Installs the tracer for the process; only the first call counts.
    func install() {
        guard !Self.isInstalled.exchange(true, ordering: .relaxed) else { return }
        InstrumentationSystem.bootstrap(tracer)
    }

    func run() async {
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { tasks in
                tasks.addTask { await exporter.run() }
                tasks.addTask {
                    guard (try? await gracefulShutdown()) != nil else { return }
                    try? await Task.sleep(for: flush)
                }
                // The export has ended, or took too long.
                await tasks.next()
                tasks.cancelAll()
            }
        } onGracefulShutdown: {
            queue.close()
        }
        await client.shutdown()
    }
}
