import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore

/// `/livez` and `/readyz`, for probes: without signing in, and without revealing anything.
struct HealthRoutes {
    private let readiness: Readiness

    init(services: ConsoleServices) {
        readiness = Readiness {
            // The console needs only a reading role, on a standby too.
            switch try? await services.probe.withConnection(.look, { try await StoreHealth.check($0) }) {
            case .ready, .readOnly: nil
            case .schema: "the schema is not this program's"
            case nil: "the database does not answer"
            }
        }
    }

    /// Answers `/livez`, which a probe may ask by any host name and as often as it likes.
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
        // Anybody may ask, so nobody may hold a connection this way.
        let headers: HTTPFields = [.connection: "close"]
        return Response(ByteBuffer(string: text), type: "text/plain; charset=utf-8", status: status, headers: headers)
    }
}

/// The database's readiness, checked at most once a second: `/readyz` is open to all, and its sessions are few.
actor Readiness {
    private static let age = Duration.seconds(1)

    private let ask: @Sendable () async -> String?
    private let now: @Sendable () -> ContinuousClock.Instant
    private var asking: Task<String?, Never>?
    private var last: (problem: String?, at: ContinuousClock.Instant)?

    init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        ask: @escaping @Sendable () async -> String?
    ) {
        self.now = now
        self.ask = ask
    }

    /// What is wrong; nil if nothing is.
    ///
    /// Concurrent callers share one answer.
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
