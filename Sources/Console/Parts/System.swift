import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
package import Resources

/// `GET workers`, `senders` and `whoami`, and `POST workers/{instance}/dismiss`.
enum SystemPart {
    static let part = ConsolePart(endpoints: [
        .get("listWorkers", "workers", "The workers, as they tell of themselves.", rows: WorkerRow.all),
        .action("dismissWorker", "workers/{instance}/dismiss", dismiss)
            .about("Takes a silent worker, which somebody knows of, off the list.").takes([instance]),
        .get("listSenders", "senders", "The senders, with their streams.", rows: SenderView.list),
        .get("getWhoAmI", "whoami") { .json(try $0.principal.json()) }
            .about("Who asks, and with what rights.", .one(Principal.self)),
    ])

    private static let instance = Parameter.uuid("instance", "The worker's instance.")

    private static func dismiss(_ request: ActionRequest) async throws -> Response {
        let (instance, author) = (try request[instance], request.author)
        return try await request.perform { connection throws(PostgresError) in
            guard let worker = try WorkerTable.dismiss(connection, instance, by: author) else {
                return .failure(.notFound("no silent worker has this instance: it is back, or was dismissed"))
            }
            return .success(ActionAnswer(["worker": worker, "done": 1] as JSONObject))
        }
    }

    /// The button that takes a silent worker off the list.
    static func dismiss(_ worker: WorkerRow) -> HTML {
        let address = PageAddress("/api/v1/workers").adding("\(worker.instance)").adding("dismiss")
        return Act.button("Dismiss", address, done: "Dismissed")
    }
}

extension Principal: ShownResource {
    package static let resource = "WhoAmI"
    package static let fields: [Field<Principal>] = [
        Field("name") { $0.name },
        Field("role") { $0.role.word },
        Field("rights") { ConsoleRight.allCases.filter($0.may).map(\.rawValue) },
    ]
}

extension Problem: ShownResource {
    package static let resource = "Problem"
    package static let about: StaticString? = "Problem details (RFC 9457): detail says what to do."
    package static let fields: [Field<Problem>] = [
        Field("type") { "/problems/" + $0.kind },
        Field("status") { $0.status.code },
        Field("title") { $0.title },
        Field("detail") { $0.detail },
    ]
}

/// A sender, from its messages and the workers' reports.
struct SenderView: Sendable {
    var senderID: String
    /// The scopes its messages' keys are derived from; empty before its first message.
    var idScopes: [String]
    /// Its streams over the living workers.
    var streams: WorkerReport.Streams

    static func list(_ connection: PostgresConnection) async throws(PostgresError) -> [SenderView] {
        let stored = try await StoredSender.list(connection)
        let streams = try await WorkerRow.all(connection).streams
        return Set(stored.map(\.senderID)).union(streams.map(\.sender)).sorted().map { id in
            SenderView(
                senderID: id,
                idScopes: stored.first { $0.senderID == id }?.idScopes ?? [],
                streams: streams.first { $0.sender == id } ?? WorkerReport.Streams(sender: id)
            )
        }
    }
}

extension SenderView: ShownResource {
    static let resource = "Sender"
    static let fields: [Field<SenderView>] = [
        Field("sender_id") { $0.senderID },
        Field("id_scopes", about: "sender or device: what its messages' keys are derived from") { $0.idScopes },
        Field("streams") { $0.streams },
    ]
}
