import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore

/// `/livez` and `/readyz`, for probes: without signing in, and without telling anything.
struct HealthRoutes: ConsoleRoutes {
    private let readiness: Readiness

    init(services: ConsoleServices) {
        readiness = Readiness {
            // A role that only reads, on a standby, does for the console.
            switch try? await services.probe.withConnection(.look, { try await StoreHealth.check($0) }) {
            case .ready, .readOnly: nil
            case .schema: "the schema is not this program's"
            case nil: "the database does not answer"
            }
        }
    }

    /// `/livez`, which a probe asks by an address of its own choice and as often as it likes.
    static func live(_ request: Request) -> Response? {
        guard request.method == .get, request.head.path == "/livez" else { return nil }
        return text("ok\n", .ok)
    }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("livez") { _, _ in Self.text("ok\n", .ok) }
        router.get("readyz") { _, _ in
            guard let problem = await readiness.problem() else { return Self.text("ok\n", .ok) }
            return Self.text(problem + "\n", .serviceUnavailable)
        }
    }

    private static func text(_ text: String, _ status: HTTPResponse.Status) -> Response {
        Response(
            status: status,
            // Anybody may ask: nobody keeps a connection by it.
            headers: [.contentType: "text/plain; charset=utf-8", .connection: "close"],
            body: .init(byteBuffer: ByteBuffer(string: text))
        )
    }
}

/// What is wrong with the database, asked once a second at most: `/readyz` is open to all, and its sessions are few.
actor Readiness {
    private static let age = Duration.seconds(1)

    private let ask: @Sendable () async -> String?
    private let now: @Sendable () -> ContinuousClock.Instant
    private var asking: Task<String?, Never>?
    private var last: (problem: String?, at: ContinuousClock.Instant)?

    /// Readiness.
    ///
    /// - Parameters:
    ///   - now: The clock.
    ///   - ask: Asks the database; nil where nothing is wrong.
    init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        ask: @escaping @Sendable () async -> String?
    ) {
        self.now = now
        self.ask = ask
    }

    /// What is wrong; nil for nothing.
    ///
    /// Those who ask at the same time share one answer.
    func problem() async -> String? {
        if let last, now() - last.at < Self.age { return last.problem }
        if let asking { return await asking.value }
        let task = Task { await ask() }
        asking = task
        let problem = await task.value
        (last, asking) = ((problem, now()), nil)
        return problem
    }
}
