import HTTPTypes
import Hummingbird

/// Checks that apply to every request, whoever sends it.
enum RequestChecks {
    /// Refuses malformed requests that the parser lets through and no honest client sends.
    ///
    /// - Throws: A ``Problem`` with status 400, 404 for a path with an empty segment, or 421 for a host that is not
    ///   ours.
    static func form(_ request: Request, _ hosts: AllowedHosts) throws(Problem) {
        let path = request.head.path ?? ""
        guard path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .badRequest("the path must begin with one slash and be percent-encoded")
        }
        // The router ignores empty segments; with one spelling per route, decisions by path hold for the whole route.
        let segments = request.uri.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard request.uri.path == "/" || !segments.contains("") else {
            throw .notFound("a path has no empty segment and no slash at its end")
        }
        guard let host = request.head.authority, !host.isEmpty, !request.headers.contains(.furtherHost) else {
            throw .badRequest("one header Host is needed")
        }
        guard hosts.contains(host) else {
            throw Problem(.host, "use the console's own name or address; a further name is added to console.hosts")
        }
    }

    /// Refuses what another site's page may have made a browser send.
    ///
    /// Only proofs that a browser adds by itself matter: a page can't add a token. A request that changes something
    /// must come from our own page and hold JSON, which no form can send; a request that reads must not be embedded
    /// elsewhere.
    static func forgery(_ request: Request, _ sender: ConsoleAccess.Sender) throws(Problem) {
        let origin = RequestOrigin(request, isSecure: sender.isSecure)
        // Showing a token leaves an audit entry: a link must not cause one in somebody else's name.
        guard request.method != .get || origin != .foreign || !reveals(request) else {
            throw .foreign("tokens are shown from the console's own pages only, or to a program")
        }
        let path = request.uri.path
        let isSigning = path == "/sign-in" || path == "/sign-out"
        guard isSigning || [.session, .proxy, .anybody].contains(sender.proof) else { return }
        let isSafe = request.method == .get || request.method == .options
        if isSafe {
            // Other sites may link here, but not embed it as an image, script or request.
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
        let type = request.mediaType
        let isEmpty = (request.headers[.contentLength] ?? "0") == "0" && request.headers[.transferEncoding] == nil
        guard type == "application/json" || (type == nil && isEmpty) else {
            throw Problem(.mediaType, "send the body as application/json")
        }
    }

    /// Whether a query has the parameter `reveal`, however it is encoded.
    private static func reveals(_ request: Request) -> Bool {
        (request.uri.query ?? "").split(separator: "&").contains { pair in
            FormText.decode(pair.prefix { $0 != "=" }, plusIsSpace: true) == "reveal"
        }
    }
}

extension Request {
    /// The body's media type, without its parameters.
    var mediaType: String? {
        guard var type = headers[.contentType]?.prefix(while: { $0 != ";" }) else { return nil }
        while let last = type.last, last == " " || last == "\t" { type.removeLast() }
        return type.isEmpty ? nil : type.lowercased()
    }
}
