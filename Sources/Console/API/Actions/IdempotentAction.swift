import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Vocabulary

/// The answer to a request that changed something.
struct ActionAnswer: Sendable {
    var status: HTTPResponse.Status = .ok
    /// The address of what was created.
    var location: String?
    /// JSON.
    var body: [UInt8]

    /// An answer whose body is an object.
    init(_ status: HTTPResponse.Status = .ok, location: String? = nil, _ write: (inout JSONWriter) -> Void) {
        self.status = status
        self.location = location
        var json = JSONWriter()
        json.beginObject()
        write(&json)
        json.endObject()
        json.endLine()
        body = json.finish()
    }

    init(_ status: HTTPResponse.Status, location: String?, body: [UInt8]) {
        (self.status, self.location, self.body) = (status, location, body)
    }

    func response(isReplayed: Bool) -> Response {
        var headers: HTTPFields = [.contentType: "application/json"]
        if let location { headers[.location] = location }
        if isReplayed, let name = HTTPField.Name("Idempotency-Replayed") { headers[name] = "true" }
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: body)))
    }
}

/// Runs actions, each once per `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
///
/// The answer is kept in the action's transaction: after a crash both exist, or neither. Refused requests did nothing
/// and are not kept.
struct IdempotentActions: Sendable {
    let services: ConsoleServices

    /// The most keys per person within 24 hours.
    private static let mostKeys = 10_000
    /// The longest kept answer, in bytes.
    private static let longestAnswer = 262_144

    /// An action's work, inside a transaction.
    typealias Action = @Sendable (isolated PostgresConnection) throws(PostgresError) -> Result<ActionAnswer, Problem>

    /// Runs an action, or repeats its earlier answer.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - isLong: Whether it may take long: it then uses a pool of its own, so that only other long ones wait for it.
    ///   - action: Runs inside a transaction.
    /// - Throws: ``Problem``, and ``PostgresError``: nothing was done, unless the connection broke during the commit;
    ///   the same request with the same key finds out.
    /// - Returns: The answer.
    func perform(_ request: ActionRequest, isLong: Bool = false, _ action: Action) async throws -> Response {
        do {
            switch try await perform(request, on: isLong ? services.planner : services.writer, action) {
            case .done(let answer, let isReplayed): return answer.response(isReplayed: isReplayed)
            case .refused(let problem): throw problem
            }
        } catch let error as PostgresError where isLong && error.failureClass == .resources && error.sqlState == nil {
            throw Self.planning
        }
    }

    private func perform(
        _ request: ActionRequest,
        on pool: ReadPool,
        _ action: Action
    ) async throws(PostgresError) -> Outcome {
        try await pool.run { connection throws(PostgresError) -> Outcome in
            var refusal: Problem?
            do throws(PostgresError) {
                return try connection.transaction { connection throws(PostgresError) in
                    switch try Self.run(connection, request, action) {
                    case .refused(let problem):
                        refusal = problem
                        throw .cancelled("because the request is refused")
                    case let outcome: return outcome
                    }
                }
            } catch {
                if let refusal { return .refused(refusal) }
                throw error
            }
        }
    }

    private enum Outcome: Sendable {
        case done(ActionAnswer, isReplayed: Bool)
        case refused(Problem)
    }

    private static func run(
        _ connection: isolated PostgresConnection,
        _ request: ActionRequest,
        _ action: Action
    ) throws(PostgresError) -> Outcome {
        let (who, key) = (request.principal.name, request.key)
        guard try connection.run(IdempotencyStatements.lock(who, key)).value(Bool.self) else {
            return .refused(underWay)
        }
        let known = try connection.run(IdempotencyStatements.find(who, key)).first { row throws(PostgresError) in
            (
                request: try row.next(Bytea.self).bytes, status: try row.next(Int.self),
                location: try row.next(String?.self), answer: try row.next(Bytea.self).bytes
            )
        }
        if let known {
            guard known.request == request.digest else { return .refused(reused) }
            let answer = ActionAnswer(.init(code: known.status), location: known.location, body: known.answer)
            return .done(answer, isReplayed: true)
        }
        guard try connection.run(IdempotencyStatements.used(who, limit: mostKeys)).value(Int.self) < mostKeys else {
            return .refused(tooMany)
        }
        switch try action(connection) {
        case .failure(let problem): return .refused(problem)
        case .success(let answer):
            guard answer.body.count <= longestAnswer else { return .refused(tooLong) }
            try connection.run(
                IdempotencyStatements.keep(
                    who,
                    key,
                    request: request.digest,
                    status: answer.status.code,
                    location: answer.location,
                    answer: answer.body
                )
            )
            return .done(answer, isReplayed: false)
        }
    }

    private static let underWay = Problem(
        .conflict,
        "request-under-way",
        "The same request is under way",
        "another request with this Idempotency-Key has no answer yet: send it again in a moment",
        headers: [.retryAfter: "1"]
    )
    private static let planning = Problem(
        .serviceUnavailable,
        "planning",
        "Another plan is being made",
        "one replay is planned, or one set frozen, at a time: send the same request again in a moment",
        headers: [.retryAfter: "10"]
    )
    private static let reused = Problem(
        .unprocessableContent,
        "idempotency-key-reused",
        "The Idempotency-Key was used for another request",
        "take a new key for each request; the same one only to send the same request again"
    )
    private static let tooLong = Problem(
        .internalServerError,
        "answer-too-long",
        "The answer is too long",
        "nothing was done: narrow the filter"
    )
    private static let tooMany = Problem(
        .tooManyRequests,
        "too-many-keys",
        "Too many changes",
        "one name may make 10,000 changes within 24 hours: use filters instead of single requests",
        headers: [.retryAfter: "3600"]
    )
}
