import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Resources
import Vocabulary

/// The answer to a request that changed something.
struct ActionAnswer: Sendable {
    var status: HTTPResponse.Status
    /// The address of what was created.
    var location: String?
    /// JSON.
    var body: [UInt8]

    fileprivate func response(isReplayed: Bool) -> Response {
        var headers: HTTPFields = [:]
        if let location { headers[.location] = location }
        if isReplayed { headers[.named("Idempotency-Replayed")] = "true" }
        return Response(ByteBuffer(bytes: body), type: "application/json", status: status, headers: headers)
    }
}

extension ActionAnswer {
    init(_ body: some ShownValue, _ status: HTTPResponse.Status = .ok, location: String? = nil) {
        self.init(status: status, location: location, body: body.json() + [UInt8(ascii: "\n")])
    }
}

/// Runs the action once per `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
///
/// The answer is kept in the action's transaction: after a crash both exist, or neither. Refused requests did nothing
/// and are not kept.
extension ActionRequest {
    /// The most keys per person within 24 hours.
    private static let mostKeys = 10_000
    /// The longest kept answer, in bytes.
    private static let longestAnswer = 262_144

    /// An action's work, inside a transaction.
    typealias Action = @Sendable (isolated PostgresConnection) throws(PostgresError) -> Result<ActionAnswer, Problem>

    /// Runs an action, or repeats its earlier answer.
    ///
    /// A long one uses a pool of its own, so that only other long ones wait for it.
    ///
    /// - Throws: ``Problem``, and ``PostgresError``: nothing was done, unless the connection broke during the commit;
    ///   the same request with the same key finds out.
    func perform(isLong: Bool = false, _ action: Action) async throws -> Response {
        do {
            let pool = isLong ? services.planner : services.writer
            let outcome = try await pool.run { connection throws(PostgresError) -> Outcome in
                var refusal: Problem?
                do throws(PostgresError) {
                    let outcome = try connection.transaction { connection throws(PostgresError) in
                        let outcome = try run(connection, action)
                        guard case .failure(let problem) = outcome else { return outcome }
                        refusal = problem
                        throw .cancelled("because the request is refused")
                    }
                    services.reader.acted(connection)
                    return outcome
                } catch {
                    if let refusal { return .failure(refusal) }
                    throw error
                }
            }
            let (answer, isReplayed) = try outcome.get()
            return answer.response(isReplayed: isReplayed)
        } catch let error as PostgresError where isLong && error.failureClass == .resources && error.sqlState == nil {
            let fix = "one replay is planned, or one set frozen, at a time: send the same request again in a moment"
            throw Problem(.planning, fix)
        }
    }

    /// Runs an action on what a filter selects by the database's clock, or selected at an earlier time: ages count back from
    /// the time that the action is given, so that they do not move between what was shown and what is done.
    func perform<Filter: Filtered>(
        isLong: Bool = false,
        on asked: Asked<Filter>,
        at earlier: Timestamp? = nil,
        _ action:
            @Sendable (isolated PostgresConnection, Filter, Timestamp) throws(PostgresError)
            -> Result<ActionAnswer, Problem>
    ) async throws -> Response {
        try await perform(isLong: isLong) { connection throws(PostgresError) in
            let now = try connection.databaseTime()
            let time = min(earlier ?? now, now)
            let filter: Filter
            do throws(FilterMistake) {
                filter = try asked.judged(now: time)
            } catch {
                return .failure(Problem(error))
            }
            return try action(connection, filter, time)
        }
    }

    private typealias Outcome = Result<(answer: ActionAnswer, isReplayed: Bool), Problem>

    private func run(_ connection: isolated PostgresConnection, _ action: Action) throws(PostgresError) -> Outcome {
        let who = principal.name
        guard try connection.run(IdempotencyStatements.lock(who, key)).value(Bool.self) else {
            let fix = "another request with this Idempotency-Key has no answer yet: send it again in a moment"
            return .failure(Problem(.underWay, fix))
        }
        let known = try connection.run(IdempotencyStatements.find(who, key))
            .rows(as: (Bytea, Int, String?, Bytea).self).first
        if let (request, status, location, body) = known {
            guard request.bytes == digest else {
                let fix = "take a new key for each request; the same one only to send the same request again"
                return .failure(Problem(.keyReused, fix))
            }
            return .success((ActionAnswer(status: .init(code: status), location: location, body: body.bytes), true))
        }
        let used = try connection.run(IdempotencyStatements.used(who, limit: Self.mostKeys)).value(Int.self)
        guard used < Self.mostKeys else {
            let fix = "one name may make 10,000 changes within 24 hours: use filters instead of single requests"
            return .failure(Problem(.tooManyKeys, fix))
        }
        let outcome = try action(connection)
        guard case .success(let answer) = outcome else { return outcome.map { ($0, false) } }
        guard answer.body.count <= Self.longestAnswer else {
            return .failure(Problem(.answerTooLong, "nothing was done: narrow the filter"))
        }
        try connection.run(IdempotencyStatements.keep(who, key, request: digest, answer))
        return .success((answer, false))
    }
}
