import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
package import Postgres
import Querying
import Resources
import Vocabulary

extension Problem.Kind {
    static let answerTooLong = Self(.internalServerError, "answer-too-long", "The answer is too long")
    static let badRequest = Self(.badRequest, "bad-request", "Bad request")
    static let busy = passing("busy", "Too many queries at once", 2)
    static let cancelled = passing("cancelled", "The request was broken off", 2)
    static let crossSite = Self(.forbidden, "cross-site", "Not from a page of the console")
    static let database = passing("database-unavailable", "The database does not answer", 2)
    static let expired = Self(.gone, "expired", "The set has expired")
    static let forbidden = Self(.forbidden, "forbidden", "Not allowed")
    static let handlerRuns = Self(.conflict, "handler-runs", "A worker runs this handler")
    static let hasEnded = Self(.conflict, "has-ended", "The job has ended")
    static let headTooLarge = Self(
        .init(code: 431, reasonPhrase: "Request Header Fields Too Large"),
        "head-too-large",
        "The request's head is too large"
    )
    static let host = Self(.misdirectedRequest, "host", "This is not the console of that host")
    static let `internal` = Self(.internalServerError, "internal", "The console failed")
    static let jobCancelled = Self(.gone, "expired", "The job was cancelled")
    static let jobFailed = Self(.conflict, "job-failed", "The job has failed")
    static let keyInvalid = Self(.badRequest, "idempotency-key-invalid", "Invalid Idempotency-Key")
    static let keyMissing = Self(.badRequest, "idempotency-key-missing", "No Idempotency-Key")
    static let keyReused = Self(
        .unprocessableContent,
        "idempotency-key-reused",
        "The Idempotency-Key was used for another request"
    )
    static let linkUsed = Self(.notFound, "link-used", "This link no longer works")
    static let locked = passing("locked", "A table is locked", 5)
    static let mediaType = Self(.unsupportedMediaType, "media-type", "Unsupported media type")
    static let method = Self(.methodNotAllowed, "method-not-allowed", "Method not allowed")
    static let noHandler = Self(.conflict, "no-handler", "No handler")
    static let notFound = Self(.notFound, "not-found", "Not found")
    static let notJSON = Self(.unsupportedMediaType, "not-json", "Not JSON")
    static let otherAction = Self(.conflict, "other-action", "Another action")
    static let otherTarget = Self(.conflict, "other-target", "Not a replay to handlers")
    static let payloadsHidden = Self(.forbidden, "payloads-hidden", "Payloads are hidden")
    static let permission = Self(.forbidden, "database-permission", "The console's database role lacks a right")
    static let planning = passing("planning", "Another plan is being made", 10)
    static let refusedValue = Self(.badRequest, "bad-request", "The database refused a value")
    static let replayRefused = Self(.conflict, "replay-refused", "The replay's state forbids it")
    static let replayTarget = Self(.badGateway, "replay-target", "The target can't be reached")
    static let schema = Self(.serviceUnavailable, "schema", "The database has another schema")
    static let standbyConflict = passing("standby-conflict", "The standby cancelled the query", 5)
    static let timeout = Self(.gatewayTimeout, "statement-timeout", "The query took too long")
    static let tooLarge = Self(.contentTooLarge, "too-large", "The request is too large")
    static let tooMany = Self(.unprocessableContent, "too-many", "Too many dead letters")
    static let tooManyAsked = Self(.tooManyRequests, "too-many-asked", "Too many requests are open", 60)
    static let tooManyConnections = passing("too-many-connections", "Too many connections", 2)
    static let tooManyJobs = Self(.tooManyRequests, "too-many-jobs", "Too many sets are prepared", 60)
    static let tooManyKeys = Self(.tooManyRequests, "too-many-keys", "Too many changes", 3600)
    static let tooManyReplays = Self(.tooManyRequests, "too-many-replays", "Too many replays are planned", 60)
    static let tooManyRequests = Self(.tooManyRequests, "too-many-requests", "Too many requests")
    static let tooManyStreams = passing("too-many-streams", "Too many streams", 10)
    static let unauthorized = Self(.unauthorized, "unauthorized", "Not signed in")
    static let underWay = Self(.conflict, "request-under-way", "The same request is under way", 1)
}

extension Problem {
    static let unauthorized = Problem(
        .unauthorized,
        "send a token of console.tokens as 'Authorization: Bearer …', or sign in at /sign-in",
        headers: [.wwwAuthenticate: "Bearer realm=\"upstream-worker\""]
    )

    static func forbidden(_ right: ConsoleRight, _ principal: Principal) -> Problem {
        let fix =
            right == .reveal
            ? "give the token or the proxy's role 'reveal: true' in the configuration" : "use a token of another role"
        return Problem(.forbidden, "the role \(principal.role.word) lacks the right '\(right.rawValue)': \(fix)")
    }

    static func tooMany(_ why: String, _ wait: Duration) -> Problem {
        let seconds = max(1, Int((wait / .seconds(1)).rounded(.up)))
        return Problem(.tooManyRequests, "\(why): wait \(seconds) s", headers: [.retryAfter: "\(seconds)"])
    }

    /// Another site's page may have made the browser send it.
    static func foreign(_ detail: String) -> Problem { Problem(.crossSite, detail) }

    static func notFound(_ detail: String) -> Problem { Problem(.notFound, detail) }

    static func badRequest(_ detail: String) -> Problem { Problem(.badRequest, detail) }

    init(_ mistake: FilterMistake) {
        switch mistake {
        case .wrong(let name, let text): self = .badRequest("'\(name)': \(text)")
        case .order: self = .badRequest("'since' must be before 'until'")
        case .payloadsHidden:
            let why = "'where' looks into payloads, which this console hides; console.payloads: shown shows them"
            self.init(.payloadsHidden, why)
        case .groupHidden:
            let why = "this group is made from what a handler said, which console.payloads hides: filter by the handler"
            self.init(.payloadsHidden, why)
        case .clauseOnToken:
            let why =
                "\(TokenMask.member) is a registration token: a clause on it takes the right 'reveal': give the token "
                + "or the proxy's role 'reveal: true' in the configuration, or leave the clause out"
            self.init(.forbidden, why)
        }
    }

    package init(_ error: PostgresError) {
        if let text = error.standbyConflict {
            self.init(.standbyConflict, text)
            return
        }
        switch error.failureClass {
        case .timeout where error.sqlState == "57014", .deadline, .cancelled:
            let fix = "narrow it (a category, a device, a shorter time), or raise console.database.statement_timeout"
            self.init(.timeout, fix)
        case .resources where error.sqlState == nil:
            self.init(.busy, "ask again in a moment, or raise console.database.sessions")
        case .permission:
            self.init(.permission, "grant it, as \(RolesScript.path) does for upstream_console: \(error.message)")
        case .schema: self.init(.schema, "run `upstream-worker migrate status`: \(error.message)")
        case .lock: self.init(.locked, "another session changes it: ask again in a moment")
        case .data, .constraint, .limit: self.init(.refusedValue, error.message)
        case _ where error.isOfReader:
            let why = "the console reads where database.read_url says, and never at the primary instead"
            self.init(.database, "\(why); what changes something still works: ask again in a moment")
        default:
            self.init(.database, "messages are not lost: the peer sends them again; ask again in a moment")
        }
    }

    /// The problem for any error of a route; nil for an unforeseen one.
    init?(_ error: any Error) {
        switch error {
        case let error as Problem: self = error
        case let error as PostgresError: self.init(error)
        case let error as FilterMistake: self.init(error)
        case is NIOTooManyBytesError, is RequestTooLarge: self.init(.tooLarge, "send at most 64 KiB")
        case let error as HTTPError where error.status == .notFound:
            self = .notFound("there is nothing at this path; the API is described at /api/v1/openapi.json")
        case let error as HTTPError where error.status.kind == .clientError:
            self = .badRequest(error.body ?? error.status.reasonPhrase)
            status = error.status
        // Nothing failed.
        case is CancellationError: self.init(.cancelled, "the client has gone, or the console stops: ask again")
        case is DecodingError: self = .badRequest("the body is not JSON of the form that is wanted")
        default: return nil
        }
    }
}
