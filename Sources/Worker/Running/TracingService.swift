import Logging
import Pipeline
import ServiceLifecycle
import Synchronization
import Telemetry
import TraceExport
import Tracing

/// Records spans, and exports them in the background until everything else has ended.
struct TracingService: Service {
    /// How long the export of what is left may take at the end, where `shutdown.grace` allows it.
    private static let longestFlush = Duration.seconds(2)

    private let tracer: any Tracer
    /// What ingest and dispatch record with.
    let pipeline: PipelineTracing
    private let queue: SpanQueue
    private let exporter: SpanExporter
    private let client: CollectorClient
    private let flush: Duration

    /// Tracing as it is configured; nothing is connected yet.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` where its files can't be used.
    init(
        _ tracing: TracingConfiguration,
        _ configuration: WorkerConfiguration,
        metrics: Metrics,
        logger: Logger
    ) throws(WorkerError) {
        do throws(TracingHeadersError) {
            _ = try tracing.headers()
        } catch {
            throw .unusable(["tracing.headers_file: \(error.message)"])
        }
        do throws(CollectorClient.Unusable) {
            client = try CollectorClient(
                endpoint: tracing.endpoint,
                caFile: tracing.caFile,
                version: metrics.version,
                headers: { try tracing.headers() }
            )
        } catch {
            throw .unusable(["tracing.ca_file: \(error.description)"])
        }
        let sampler = TraceSampler(ratio: tracing.sampleRatio)
        let resource = TraceRequest.Resource(
            service: tracing.serviceName,
            version: metrics.version,
            instance: DispatchRunner.workerName
        )
        queue = SpanQueue(counts: metrics.spans)
        let tracer = SpanTracer(sampler: sampler, queue: queue)
        self.tracer = tracer
        pipeline = PipelineTracing(
            tracer: tracer,
            sampler: sampler,
            member: tracing.traceparent.flatMap(TraceMember.init),
            senderIDs: configuration.senders.map(\.senderID)
        )
        exporter = SpanExporter(
            queue: queue,
            request: TraceRequest(resource),
            counts: metrics.spans,
            logger: logger,
            send: { [client] in try await client.post($0) }
        )
        flush = min(Self.longestFlush, configuration.shutdownGrace / 10)
    }

    private static let isInstalled = Atomic<Bool>(false)

    /// Makes the tracer the process's own, so that spans of handlers written in Swift join those of the attempts.
    ///
    /// Only the first call counts: a process does this once.
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
                // The export has ended, or took too long at the end.
                await tasks.next()
                tasks.cancelAll()
            }
        } onGracefulShutdown: {
            queue.close()
        }
        await client.shutdown()
    }
}
