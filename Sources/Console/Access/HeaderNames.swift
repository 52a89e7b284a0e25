import HTTPTypes

extension HTTPField.Name {
    /// A second `Host`; the first is the request's authority.
    static let furtherHost = named("Host")
    /// How a browser says where a request came from (Fetch Metadata, W3C).
    static let secFetchSite = named("Sec-Fetch-Site")
    /// How a browser says what it will do with the answer (Fetch Metadata, W3C).
    static let secFetchMode = named("Sec-Fetch-Mode")
    /// What a proxy says of the client's own connection.
    static let forwardedProto = named("X-Forwarded-Proto")
    /// The addresses that a request came by, the client's first.
    static let forwardedFor = named("X-Forwarded-For")
    /// How much of its address a page tells (W3C Referrer Policy).
    static let referrerPolicy = named("Referrer-Policy")
    /// Whether windows of other origins may hold ours (HTML, section 7.1.3).
    static let crossOriginOpenerPolicy = named("Cross-Origin-Opener-Policy")
    /// Frames, for browsers that don't know `frame-ancestors` (RFC 7034).
    static let frameOptions = named("X-Frame-Options")

    /// The name of a header whose spelling is known to be right.
    static func named(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("not the name of a header: \(name)") }
        return name
    }
}
