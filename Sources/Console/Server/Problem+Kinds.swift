import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
package import Postgres
import Querying
import Resources
import Vocabulary

extension Problem {
    /// Nobody has signed in.
    static var unauthorized: Problem {
        Problem(
            .unauthorized,
            "unauthorized",
            "Not signed in",
            "send a token of console.tokens as 'Authorization: Bearer …', or sign in at /sign-in",
            headers: [.wwwAuthenticate: "Bearer realm=\"upstream-worker\""]
        )
    }

    /// The proxy's user has the name of a token.
    static var forbiddenName: Problem {
        Problem(
            .forbidden,
            "forbidden",
            "Not allowed",
            "the proxy's user is named as one of console.tokens is: give the token another name"
        )
    }

    /// The sender lacks a right.
    static func forbidden(_ right: ConsoleRight, _ principal: Principal) -> Problem {
        let fix =
            switch right {
            case .reveal: "give the token or the proxy's role 'reveal: true' in the configuration"
            default: "use a token of another role"
            }
        return Problem(
            .forbidden,
            "forbidden",
            "Not allowed",
            "the role \(principal.role.rawValue) lacks the right '\(right.rawValue)': \(fix)"
        )
    }

    /// A filter names a group made from a handler's words.
    static var groupHidden: Problem {
        Problem(
            .forbidden,
            "payloads-hidden",
            "Payloads are hidden",
            "this group is made from what a handler said, which console.payloads hides: filter by the handler"
        )
    }

    /// `where` was given to a console that hides payloads.
    static var payloadsHidden: Problem {
        Problem(
            .forbidden,
            "payloads-hidden",
            "Payloads are hidden",
            "'where' looks into payloads, which this console hides; console.payloads: shown shows them"
        )
    }

    /// `where` looks at a registration token in a payload, without the right to see it.
    static var clauseOnToken: Problem {
        Problem(
            .forbidden,
            "forbidden",
            "Not allowed",
            "\(TokenMask.member) is a registration token: a clause on it takes the right 'reveal': give the token or the "
                + "proxy's role 'reveal: true' in the configuration, or leave the clause out"
        )
    }

    /// The sender asks too often: status 429 with how long to wait.
    static func tooMany(_ why: String, _ wait: Duration) -> Problem {
        let seconds = max(1, Int((wait / .seconds(1)).rounded(.up)))
        return Problem(
            .tooManyRequests,
            "too-many-requests",
            "Too many requests",
            "\(why): wait \(seconds) s",
            headers: [.retryAfter: "\(seconds)"]
        )
    }

    /// Another site's page may have made the browser send it.
    static func foreign(_ detail: String) -> Problem {
        Problem(.forbidden, "cross-site", "Not from a page of the console", detail)
    }

    /// Nothing exists at a path, or with that key.
    package static func notFound(_ detail: String) -> Problem {
        Problem(.notFound, "not-found", "Not found", detail)
    }

    /// Status 400; `detail` says what is wrong, and what would be right.
    package static func badRequest(_ detail: String) -> Problem {
        Problem(.badRequest, "bad-request", "Bad request", detail)
    }

    /// A failure of the database.
    package init(_ error: PostgresError) {
        switch error.failureClass {
        case .timeout where error.sqlState == "57014", .deadline, .cancelled:
            self.init(
                .gatewayTimeout,
                "statement-timeout",
                "The query took too long",
                "narrow it (a category, a device, a shorter time), or raise console.database.statement_timeout"
            )
        case .resources where error.sqlState == nil:
            self.init(
                .serviceUnavailable,
                "busy",
                "Too many queries at once",
                "ask again in a moment, or raise console.database.sessions",
                headers: [.retryAfter: "2"]
            )
        case .permission:
            self.init(
                .forbidden,
                "database-permission",
                "The console's database role lacks a right",
                "grant it, as \(RolesScript.path) does for upstream_console: \(error.message)"
            )
        case .schema:
            self.init(
                .serviceUnavailable,
                "schema",
                "The database has another schema",
                "run `upstream-worker migrate status`: \(error.message)"
            )
        case .lock:
            self.init(
                .serviceUnavailable,
                "locked",
                "A table is locked",
                "another session changes it: ask again in a moment",
                headers: [.retryAfter: "5"]
            )
        case .data, .constraint, .limit:
            self.init(.badRequest, "bad-request", "The database refused a value", error.message)
        default:
            self.init(
                .serviceUnavailable,
                "database-unavailable",
                "The database does not answer",
                "messages are not lost: the peer sends them again; ask again in a moment",
                headers: [.retryAfter: "2"]
            )
        }
    }

    /// The problem for any error of a route; nil for an unforeseen one.
    init?(_ error: any Error) {
        switch error {
        case let error as Problem: self = error
        case let error as PostgresError: self.init(error)
        case let error as FilterMistake: self.init(error)
        case is NIOTooManyBytesError, is RequestTooLarge:
            self.init(.contentTooLarge, "too-large", "The request is too large", "send at most 64 KiB")
        case let error as HTTPError where error.status == .notFound:
            self = .notFound("there is nothing at this path; the API is described at /api/v1/openapi.json")
        case let error as HTTPError where error.status.kind == .clientError:
            self = .badRequest(error.body ?? error.status.reasonPhrase)
            status = error.status
        case is CancellationError:
            // The client has gone, or the console stops: nothing failed.
            self.init(
                .serviceUnavailable,
                "cancelled",
                "The request was broken off",
                "the client has gone, or the console stops: ask again",
                headers: [.retryAfter: "2"]
            )
        case is DecodingError: self = .badRequest("the body is not JSON of the form that is wanted")
        default: return nil
        }
    }
}
