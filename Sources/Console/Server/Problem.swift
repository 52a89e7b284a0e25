package import HTTPTypes
import Hummingbird
import NIOCore
import Resources

/// An error as the API reports it: problem details (RFC 9457).
///
/// Pages show the same as HTML.
package struct Problem: Error, Sendable, Equatable {
    /// What goes wrong, whatever the case.
    struct Kind: Sendable {
        let status: HTTPResponse.Status
        /// A stable word: the last part of `type`.
        let name: String
        let title: String
        /// The seconds after which asking again makes sense.
        var retryAfter: Int?

        init(_ status: HTTPResponse.Status, _ name: String, _ title: String, _ retryAfter: Int? = nil) {
            (self.status, self.name, self.title, self.retryAfter) = (status, name, title, retryAfter)
        }

        /// What passes by itself, after some seconds.
        static func passing(_ name: String, _ title: String, _ retryAfter: Int) -> Kind {
            Kind(.serviceUnavailable, name, title, retryAfter)
        }
    }

    package var status: HTTPResponse.Status
    /// The name of its ``Kind``.
    package let kind: String
    package let title: String
    /// What happened, and how to fix it.
    package let detail: String
    /// Additional headers, such as `Retry-After`.
    package var headers: HTTPFields

    init(_ kind: Kind, _ detail: String, headers: HTTPFields = [:]) {
        (status, self.kind, title, self.detail) = (kind.status, kind.name, kind.title, detail)
        self.headers = headers
        if let seconds = kind.retryAfter { self.headers[.retryAfter] = "\(seconds)" }
    }

    static func isAPI(_ request: Request) -> Bool {
        let path = request.uri.path
        return path == "/api" || path.hasPrefix("/api/")
    }

    /// The answer: `application/problem+json` under `/api`, a plain page elsewhere.
    func response(isAPI: Bool) -> Response {
        var response =
            isAPI
            ? Response(ByteBuffer(bytes: line), type: "application/problem+json", status: status)
            : Response(html: page, status: status)
        response.headers[.cacheControl] = "no-store"
        for field in headers { response.headers[field.name] = field.value }
        return response
    }

    var line: [UInt8] { json() + [UInt8(ascii: "\n")] }

    /// What passes by itself is asked for again by the browser.
    private var page: HTML {
        let again = status == .serviceUnavailable ? headers[.retryAfter] : nil
        return PageShell(title: title).card(
            """
            <h1>\(title)</h1><p>\(detail)</p>
            <p class="actions"><a class="button" href="/">To the overview</a></p>
            """,
            head: again.map { "<meta http-equiv=\"refresh\" content=\"\($0)\">" } ?? ""
        )
    }
}
