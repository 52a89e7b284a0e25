import Foundation
import HTTPTypes
import Hummingbird

/// What must hold of a request whoever sends it.
enum RequestChecks {
    /// Checks what the parser lets through, and no client of good will sends.
    ///
    /// - Throws: A ``Problem`` with status 400, 404 for a path with an empty segment, or 421 for a host that is not ours.
    static func form(_ request: Request, _ hosts: AllowedHosts) throws(Problem) {
        let path = request.head.path ?? ""
        guard path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .badRequest("the path must begin with one slash and be percent-encoded")
        }
        // The router ignores empty segments: each route has one spelling, so that what is decided by a path holds for all of it.
        let segments = request.uri.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard request.uri.path == "/" || !segments.contains("") else {
            throw .notFound("a path has no empty segment and no slash at its end")
        }
        // The library gives the first `Host` as the authority and keeps the others (RFC 9112 section 3.2).
        guard let host = request.head.authority, !host.isEmpty, !request.headers.contains(.furtherHost) else {
            throw .badRequest("one header Host is needed")
        }
        guard hosts.contains(host) else {
            throw Problem(
                .misdirectedRequest,
                "host",
                "This is not the console of that host",
                "use the console's own name or address; a further name is added to console.hosts"
            )
        }
    }

    /// Refuses what a stranger's page may have made a browser send.
    ///
    /// Only proofs that a browser adds by itself are in question: a page can't add a token. To change something a request must
    /// come from a page of ours and hold JSON, which no form can send; to read it must not be embedded elsewhere.
    ///
    /// - Throws: A ``Problem`` with status 403 or 415.
    static func forgery(_ request: Request, _ sender: ConsoleAccess.Sender) throws(Problem) {
        let origin = RequestOrigin(request, isSecure: sender.isSecure)
        // Showing a token leaves an entry in the audit trail: nobody's link may do that in somebody else's name.
        guard request.method != .get || origin != .foreign || !reveals(request) else {
            throw .foreign("tokens are shown from the console's own pages only, or to a program")
        }
        let path = request.uri.path
        let isSigning = path == "/sign-in" || path == "/sign-out"
        guard isSigning || [.session, .proxy, .anybody].contains(sender.proof) else { return }
        let isSafe = request.method == .get || request.method == .options
        if isSafe {
            // A link from elsewhere may lead here; an image, a script or a request of elsewhere's may not.
            let isEmbedded =
                request.headers[.secFetchSite] == "cross-site" && request.headers[.secFetchMode] != "navigate"
            guard isEmbedded else { return }
            throw .foreign("this address can't be embedded in pages of another origin")
        }
        // A program on this machine is no browser.
        guard origin == .ours || (origin == .unknown && sender.proof == .anybody) else {
            throw .foreign("a request that changes something must come from the console's own pages, or carry a token")
        }
        guard !isSigning else { return }
        let type = request.headers[.contentType]?.split(separator: ";").first.map { $0.lowercased() } ?? ""
        let isEmpty = (request.headers[.contentLength] ?? "0") == "0" && request.headers[.transferEncoding] == nil
        guard type == "application/json" || (type.isEmpty && isEmpty) else {
            throw Problem(
                .unsupportedMediaType,
                "media-type",
                "Unsupported media type",
                "send the body as application/json"
            )
        }
    }

    /// Whether a query has the parameter `reveal`, however it is encoded.
    private static func reveals(_ request: Request) -> Bool {
        (request.uri.query ?? "").split(separator: "&").contains { pair in
            pair.prefix { $0 != "=" }.removingPercentEncoding == "reveal"
        }
    }
}
