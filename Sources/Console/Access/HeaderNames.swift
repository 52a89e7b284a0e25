import HTTPTypes

extension HTTPField.Name {
    /// A second `Host`; the first is the request's authority.
    static let furtherHost = named("Host")
    /// Where a request came from, according to the browser (Fetch Metadata, W3C).
    static let secFetchSite = named("Sec-Fetch-Site")
    /// What the browser will do with the answer (Fetch Metadata, W3C).
    static let secFetchMode = named("Sec-Fetch-Mode")
    /// The scheme of the client's own connection, according to a proxy.
    static let forwardedProto = named("X-Forwarded-Proto")
    /// The addresses a request came through, the client's first.
    static let forwardedFor = named("X-Forwarded-For")
    /// How much of its address a page reveals (W3C Referrer Policy).
    static let referrerPolicy = named("Referrer-Policy")
    /// Whether windows of other origins may hold a reference to ours (HTML, section 7.1.3).
    static let crossOriginOpenerPolicy = named("Cross-Origin-Opener-Policy")
    /// Frame policy for browsers that don't know `frame-ancestors` (RFC 7034).
    static let frameOptions = named("X-Frame-Options")

    /// How many seconds what an answer shows is behind the primary; only where `database.read_url` is set.
    static let readLag = named("Upstream-Read-Lag")

    /// A header name known to be valid.
    static func named(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("not the name of a header: \(name)") }
        return name
    }
}
