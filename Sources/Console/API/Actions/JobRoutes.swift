import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Resources
import ServiceLifecycle
import Vocabulary

/// `GET jobs/{id}`, its progress as Server-Sent Events, and `POST jobs/{id}/cancel`.
struct JobRoutes: EndpointGroup {
    let services: ConsoleServices

    /// Limited, since each stream queries the database twice a second.
    private let places = StreamPlaces(50, "streams of jobs", instead: "ask for jobs/{id} now and then")

    /// How often a stream looks.
    private static let interval = Duration.milliseconds(500)

    private static let job = Parameter.uuid("id", "The job.") { Digest128(uuid: $0.utf8) }

    init(services: ConsoleServices) { self.services = services }

    var endpoints: [Endpoint] {
        [
            .get("getJob", "jobs/{id}", "A job, or a frozen set.", [Self.job], .one(Job.schema)) { request in
                JSONAnswer.of(try await find(try request[Self.job]).json())
            },
            .get(
                "streamJob",
                "jobs/{id}/stream",
                "A job's progress: events `progress`, and `end` at its end, with the job as data.",
                [Self.job],
                .stream("text/event-stream", "Events"),
                stream
            ),
            .post(
                "cancelJob",
                "jobs/{id}/cancel",
                "Ends a job, or a frozen set; what was done stays done.",
                [Self.job],
                answers: [.one(Job.schema, 200, "The job")],
                cancel
            ),
        ]
    }

    private func find(_ id: Digest128) async throws -> Job {
        let job = try await services.reader.run { connection throws(PostgresError) in
            try connection.run(JobStatements.find(id)).first(Job.read)
        }
        guard let job else { throw Problem.notFound("there is no job with this id: ended ones are kept for 7 days") }
        return job.shown(to: services.settings.sight)
    }

    private func cancel(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let id = try endpoint[Self.job]
        let author = try request.author(try request.decode(ReasonBody.self).reason)
        let sight = services.settings.sight
        return try await IdempotentActions(services: services).perform(request) { connection throws(PostgresError) in
            guard let job = try Jobs.cancel(connection, id, by: author) else {
                return .failure(.notFound("there is no job with this id: ended ones are kept for 7 days"))
            }
            guard job.state == "cancelled" else {
                return .failure(Problem(.conflict, "has-ended", "The job has ended", "it is \(job.state)"))
            }
            return .success(ActionAnswer(.ok, location: nil, body: job.shown(to: sight).json() + [UInt8(ascii: "\n")]))
        }
    }

    /// An event `progress` with the job whenever it has changed, and `end` with it at the end.
    private func stream(_ request: EndpointRequest) async throws -> Response {
        let id = try request[Self.job]
        let place = try places.take()
        let first = try await find(id)
        let body = ResponseBody { [place] writer in
            defer { withExtendedLifetime(place) {} }
            var sent: [UInt8] = []
            var job = first
            var silence = ContinuousClock.now
            while true {
                let json = job.json()
                if json != sent {
                    try await writer.write(Self.event(job.hasEnded ? "end" : "progress", json))
                    (sent, silence) = (json, .now)
                } else if ContinuousClock.now - silence > .seconds(15) {
                    // A comment keeps proxies from closing an idle connection.
                    try await writer.write(ByteBuffer(string: ":\n\n"))
                    silence = .now
                }
                if job.hasEnded || Task.isCancelled || Task.isShuttingDownGracefully { break }
                try await Task.sleep(for: Self.interval)
                // No session is held while a slow client reads; a failed query is repeated.
                if let next = try? await find(id) { job = next }
            }
            try await writer.finish(nil)
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: body
        )
    }

    private static func event(_ name: String, _ json: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer(string: "event: \(name)\ndata: ")
        buffer.writeBytes(json)
        buffer.writeString("\n\n")
        return buffer
    }
}
