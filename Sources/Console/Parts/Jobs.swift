import Hummingbird
import Postgres
import Resources
import ServiceLifecycle
import Vocabulary

/// `GET jobs`, `jobs/{id}`, its progress as Server-Sent Events, and `POST jobs/{id}/cancel`, and a page of them.
enum JobPart {
    private static let interval = Duration.milliseconds(500)

    private static let job = Parameter.uuid("id", "The job.")
    private static let unknown = Problem.notFound("there is no job with this id: ended ones are kept for 7 days")

    static let part = ConsolePart(
        section: Section("Jobs", "/jobs", "M5 7h14M5 12h14M5 17h8M17 15v4M15 17h4"),
        endpoints: endpoints,
        pages: [Page(path: "jobs", make: page)]
    )

    private static let endpoints: [Endpoint] = [
        .get("listJobs", "jobs") { request in
            let (limit, services) = (try request[limit], request.services)
            let jobs = try await services.reader.withConnection { try await list($0, limit: limit) }
            return .page(jobs.map { $0.shown(to: services.sight) })
        }
        .about("Jobs that were started: the running ones first, then the latest.", .page(of: Job.self)).takes([limit]),
        .get("getJob", "jobs/{id}") { .json(try await find(try $0[job], $0.services).json()) }
            .about("A job, or a frozen set.", .one(Job.self)).takes([job]),
        .get("streamJob", "jobs/{id}/stream", stream)
            .about(
                "A job's progress: events `progress`, and `end` at its end, with the job as data.",
                .stream("text/event-stream", "Events")
            )
            .takes([job]),
        .action("cancelJob", "jobs/{id}/cancel", cancel)
            .about("Ends a job, or a frozen set; what was done stays done.", .one(Job.self, 200, "The job"))
            .takes([job]),
    ]

    private static let limit = Parameter.limit(500)

    private static func list(
        _ connection: PostgresConnection,
        isRunning: Bool = false,
        limit: Int
    ) async throws(PostgresError) -> [Job] {
        try await connection.result(of: JobStatements.list(isRunning: isRunning, limit: limit)).rows(Job.init)
    }

    /// The jobs that run, as a card for the page of what they work on; nothing without any.
    static func running(_ connection: PostgresConnection, _ request: PageRequest) async throws -> HTML {
        let most = 3
        let jobs = try await list(connection, isRunning: true, limit: most + 1).map { $0.shown(to: request.sight) }
        guard !jobs.isEmpty else { return "" }
        return Part.rows(
            "Running jobs",
            Array(jobs.prefix(most)),
            now: try await connection.databaseTime(),
            count: jobs.count > most ? "\(most)+" : nil,
            columns(request)
        )
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (jobs, now) = try await request.read { connection in
            (try await list(connection, limit: 40), try await connection.databaseTime())
        }
        let hint: HTML = "Retries and discards of <a href=\"/dead\">dead letters</a> run here, and stay for 7 days."
        let table =
            jobs.isEmpty
            ? Part.empty("No job was started lately", hint)
            : Part.table("Jobs", jobs.map { $0.shown(to: request.sight) }, now: now, columns(request))
        return request.document(
            "Jobs",
            refresh: jobs.contains { !$0.hasEnded } ? 2 : 10,
            """
            \(Part.head("Jobs", "Actions on many rows: they go on whatever page is open."))
            <section class="card" id="jobs" data-live>\(table)</section>
            """
        )
    }

    private static func columns(_ request: PageRequest) -> [PageColumn<Job>] {
        [
            PageColumn("started_at", title: "Started"), "action",
            PageColumn("subject") { "\(stranger: $0.subject.shortened(160))" }, PageColumn("state", cell: badge),
            PageColumn("done", title: "Progress") { job in
                let gone: HTML = HTML.when(
                    job.skipped > 0,
                    "<span class=\"sub\">\(Figures.count(job.skipped)) were gone</span>"
                )
                return "\(Part.progress("Progress", Int64(job.done + job.skipped), of: Int64(job.planned)))\(gone)"
            },
            PageColumn("started_by", title: "By"), PageColumn("error", absent: ""),
            .actions { job in
                guard request.mayAct, !job.hasEnded else { return "" }
                let address = PageAddress("/api/v1/jobs").adding("\(job.id)").adding("cancel")
                return Act.button("Cancel", address, done: "Cancelled", kind: .danger)
            },
        ]
    }

    private static func badge(_ job: Job) -> HTML {
        let tones: [String: Tone] = ["running": .active, "finished": .good, "failed": .bad]
        return Part.badge(tones[job.state] ?? .idle, job.state)
    }

    private static func cancel(_ request: ActionRequest) async throws -> Response {
        let (id, sight, author) = (try request[job], request.services.sight, request.author)
        return try await request.perform { connection throws(PostgresError) in
            guard let job = try Jobs.cancel(connection, id, by: author) else { return .failure(unknown) }
            guard job.state == "cancelled" else { return .failure(Problem(.hasEnded, "it is \(job.state)")) }
            return .success(job.answer(.ok, to: sight))
        }
    }

    private static func find(_ id: Digest128, _ services: ConsoleServices) async throws -> Job {
        let job = try await services.primary.run { connection throws(PostgresError) in
            let job = try connection.run(JobStatements.find(id)).firstRow(Job.init)
            // Who sees its end sees what it did.
            if job?.hasEnded == true { services.reader.acted(connection) }
            return job
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

extension Job: ShownResource {
    static let resource = "Job"
    static let fields: [Field<Job>] = [
        Field("id") { $0.id },
        Field("action") { $0.action },
        .changed("subject", \.subject) { subject, sight, _ in AuditSubject.shown(subject, to: sight) },
        Field("state", about: "planned, running, finished, cancelled, failed or expired") {
            $0.isExpired ? "expired" : $0.state
        },
        Field("planned") { $0.planned },
        Field("done") { $0.done },
        Field("skipped", about: "those that were gone by then") { $0.skipped },
        .changed("groups", \.groups) { groups, sight, _ in groups.shown(to: sight) },
        Field("created_by") { $0.createdBy },
        Field("created_at") { $0.createdAt },
        Field("expires_at") { $0.expiresAt },
        Field("started_by") { $0.startedBy },
        Field("started_at") { $0.startedAt },
        Field("reason") { $0.reason },
        Field("finished_at") { $0.finishedAt },
        Field("error") { $0.lastError },
        Field("rate", about: "how many become due a second; null for all at once") { $0.rate },
        Field("due_to", about: "when the last one queued is due, with a rate") { $0.dueTo },
    ]
}
