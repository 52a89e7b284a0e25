import Hummingbird
import Postgres
import Resources
import ServiceLifecycle
import Vocabulary

/// `GET jobs/{id}`, its progress as Server-Sent Events, and `POST jobs/{id}/cancel`.
enum JobRoutes {
    /// How often a stream looks.
    private static let interval = Duration.milliseconds(500)

    private static let job = Parameter.uuid("id", "The job.")
    private static let unknown = Problem.notFound("there is no job with this id: ended ones are kept for 7 days")

    static let endpoints: [Endpoint] = [
        .get("getJob", "jobs/{id}", "A job, or a frozen set.", .one(Job.schema), [job]) { request in
            .json(try await find(try request[job], request.services).json())
        },
        .get(
            "streamJob",
            "jobs/{id}/stream",
            "A job's progress: events `progress`, and `end` at its end, with the job as data.",
            .stream("text/event-stream", "Events"),
            [job],
            stream
        ),
        .action(
            "cancelJob",
            "jobs/{id}/cancel",
            "Ends a job, or a frozen set; what was done stays done.",
            [job],
            answers: [.one(Job.schema, 200, "The job")]
        ) { request in
            let (id, sight, author) = (try request[job], request.services.sight, request.author)
            return try await request.perform { connection throws(PostgresError) in
                guard let job = try Jobs.cancel(connection, id, by: author) else { return .failure(unknown) }
                guard job.state == "cancelled" else {
                    return .failure(Problem(.hasEnded, "it is \(job.state)"))
                }
                return .success(job.answer(.ok, to: sight))
            }
        },
    ]

    private static func find(_ id: Digest128, _ services: ConsoleServices) async throws -> Job {
        let job = try await services.reader.run { connection throws(PostgresError) in
            try connection.run(JobStatements.find(id)).first(Job.init)
        }
        guard let job else { throw unknown }
        return job.shown(to: services.sight)
    }

    /// An event `progress` with the job whenever it has changed, and `end` with it at the end.
    private static func stream(_ request: EndpointRequest) async throws -> Response {
        let (id, services) = (try request[job], request.services)
        let place = try services.jobStreams.take()
        let first = try await find(id, services)
        let body = ResponseBody { [place] writer in
            defer { withExtendedLifetime(place) {} }
            let out = StreamOutput(writer)
            var sent: [UInt8] = []
            var job = first
            while true {
                let json = job.json()
                if json != sent {
                    let text = String(decoding: json, as: UTF8.self)
                    try await out.write("event: \(job.hasEnded ? "end" : "progress")\ndata: \(text)\n\n")
                    sent = json
                } else if out.silence > .seconds(15) {
                    // A comment keeps proxies from closing an idle connection.
                    try await out.write(":\n\n")
                }
                if job.hasEnded || Task.isCancelled || Task.isShuttingDownGracefully { break }
                try await Task.sleep(for: interval)
                // No session is held while a slow client reads; a failed query is repeated.
                if let next = try? await find(id, services) { job = next }
            }
            try await out.finish()
        }
        return .events(body)
    }
}
