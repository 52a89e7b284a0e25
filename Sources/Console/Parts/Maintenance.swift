import Hummingbird
import MessageStore
import Postgres
import Resources
import UpstreamKit
import Vocabulary

/// `GET maintenance`, `POST partitions/run` and `devices/{device}/forget`: what deletes messages, which the console's role
/// may not; so it asks those who may.
enum MaintenancePart {
    static let part = ConsolePart(endpoints: [
        .get(
            "listMaintenance",
            "maintenance",
            "Runs of retention and erasures of devices that people asked for, the latest 100.",
            rows: { try await MaintenanceRequests.list($0, limit: 100) }
        ),
        .action("runRetention", "partitions/run", run)
            .about("Counts what retention would delete; with the count's `as_of` asks a worker to run it.")
            .takes([], body: [ActionBody.asOf]),
        .action("forgetDevice", "devices/{device}/forget", forget)
            .about("Counts what is stored of a device; with the count's `as_of` asks the tables' owner to erase it.")
            .takes([device], body: [ActionBody.asOf]),
    ])

    private static let device = Parameter.uuid("device", "The device, by its device_key.")
    private static let unknown = Problem.notFound(
        "no message of this device is stored; with its token, `forget --token-file` looks for what else there is"
    )

    private static func run(_ request: ActionRequest) async throws -> Response {
        guard let time = try request.body.time else {
            let plan = try await request.services.primary.withConnection { try await RetentionView.take($0).plan }
            return .json((["planned": 1, "as_of": plan.now, "about": about(plan)] as JSONObject).json())
        }
        return try await ask(request, .retention, at: time)
    }

    private static func about(_ plan: RetentionPlan) -> String {
        let due = plan.partitions(.drop)
        let size = Amount.bytes(due.reduce(0) { $0 + $1.bytes })
        let rows = [
            (plan.conflicts, "conflict"), (plan.quarantine, "quarantined stanza"), (plan.deadLetters, "dead letter"),
        ].filter { $0.0 > 0 }.map { count, noun in
            "\(Figures.count(count, limit: Overview.countLimit)) \(noun)\(count == 1 ? "" : "s")"
        }
        let ledger = plan.ledgerExpired.flatMap { $0 > 0 ? "\(Figures.estimate($0)) ids of the ledger" : nil }
        return (["\(Amount.counted(due.count, "day")) of messages (\(size))"] + rows + (ledger.map { [$0] } ?? []))
            .joined(separator: ", ")
    }

    private static func forget(_ request: ActionRequest) async throws -> Response {
        let device = try request[device]
        if let time = try request.body.time { return try await ask(request, .forget, device, at: time) }
        let (counts, now) = try await request.services.primary.withConnection { connection in
            let counts = try await connection.run { try Erasure.count($0, of: device) }
            return (counts, try await connection.databaseTime())
        }
        guard counts.isKnown else { throw unknown }
        var answer: JSONObject = ["planned": counts.total, "as_of": now, "about": about(counts)]
        for (name, count) in counts.tables where name != "quarantine" { answer.add(name, count) }
        return .json(answer.json())
    }

    private static func about(_ counts: ErasureCounts) -> String {
        let parts = [
            (counts.messages + counts.deadMessages, "message", "messages"),
            (counts.deliveries, "waiting delivery", "waiting deliveries"),
            (counts.deadLetters, "dead letter", "dead letters"), (counts.conflicts, "conflict", "conflicts"),
        ].filter { $0.0 > 0 }.map { Amount.counted($0.0, $0.1, plural: $0.2) }
        return parts.joined(separator: ", ") + ", and the quarantined stanzas that hold its token"
    }

    private static func ask(
        _ request: ActionRequest,
        _ kind: MaintenanceRequest.Kind,
        _ device: Digest128? = nil,
        at time: Timestamp
    ) async throws -> Response {
        let author = request.author
        guard author.reason?.contains(where: { !$0.isWhitespace }) == true else {
            throw Problem.badRequest("give a 'reason': it is kept with the request")
        }
        return try await request.perform { connection throws(PostgresError) in
            let counts = try device.map { device throws(PostgresError) in try Erasure.count(connection, of: device) }
            if let counts, !counts.isKnown { return .failure(unknown) }
            guard let id = try MaintenanceRequests.add(connection, kind, device, count: counts?.total, by: author)
            else {
                return .failure(Problem(.tooManyAsked, "100 are open: `forget --requests` does them"))
            }
            return .success(ActionAnswer(["request": id, "done": 1, "more": false, "as_of": time] as JSONObject))
        }
    }

    // MARK: Pages

    static let runDialog = Act.dialog(
        "run-retention",
        "Run retention now",
        "/api/v1/partitions/run",
        done: "Asked for",
        kind: .danger,
        isSmall: false,
        counted: "Run",
        """
        <p>A worker drops the days that are due, and deletes what else is too old, within half a minute. Days that deliveries need are \
        kept.</p>\(Act.reason("run-retention"))
        """
    )

    static func forgetDialog(_ device: DeviceKey) -> HTML {
        Act.dialog(
            "forget",
            "Forget this device",
            PageAddress("/api/v1/devices").adding("\(device)").adding("forget"),
            done: "Asked for",
            kind: .danger,
            isSmall: false,
            counted: "Ask to erase",
            next: "/retention",
            """
            <p>All that is stored of the device <span class="mono">\("\(device)")</span> is erased, whatever else the filter says, once the \
            tables' owner runs <code>upstream-worker forget --requests</code>. It cannot be undone.</p>\(Act.reason("forget"))
            """
        )
    }

    /// What was asked for, as a card; nothing without any.
    static func card(_ requests: [MaintenanceRequest], now: Timestamp) -> HTML {
        guard !requests.isEmpty else { return "" }
        return Part.rows(
            "Asked for",
            requests,
            now: now,
            [
                "requested_at", "kind", "device_key", "who", "reason", PageColumn("state", cell: badge), "finished_at",
                "outcome",
            ]
        )
    }

    private static func badge(_ request: MaintenanceRequest) -> HTML {
        let tones: [MaintenanceRequest.State: Tone] = [.running: .active, .done: .good, .failed: .bad]
        return Part.badge(tones[request.state] ?? .idle, request.state.rawValue)
    }
}

extension ErasureCounts {
    /// Whether a message tells the device's token.
    fileprivate var isKnown: Bool { messages + deadMessages + conflicts > 0 }
}

extension MaintenanceRequest.Kind: ShownWord {}

extension MaintenanceRequest.State: ShownWord {}

extension MaintenanceRequest: ShownResource {
    static let resource = "MaintenanceRequest"
    static let fields: [Field<MaintenanceRequest>] = [
        Field("id") { $0.id },
        Field("kind", look: .tag) { $0.kind },
        Field("device_key", label: "Device", about: "null with retention") { $0.deviceKey },
        Field("who") { $0.who },
        Field("reason") { $0.reason },
        Field("state", about: "running also where it was broken off: it is taken again") { $0.state },
        Field("requested_at", label: "When") { $0.requestedAt },
        Field("started_at") { $0.startedAt },
        Field("finished_at", label: "Ended") { $0.finishedAt },
        Field("outcome", about: "what was deleted, or why nothing was") { $0.outcome },
    ]
}
