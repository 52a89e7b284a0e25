import HTTPTypes
import Hummingbird

/// The cookie of a sign-in (RFC 6265).
enum SessionCookie {
    /// The name; browsers accept `__Host-` only over TLS, for this whole host and no other.
    static func name(isSecure: Bool) -> String { isSecure ? "__Host-upstream-session" : "upstream-session" }

    /// The session id in a request; nil if there is none, or more than one.
    static func id(in request: Request, isSecure: Bool) -> String? {
        let wanted = name(isSecure: isSecure)
        var found: [String] = []
        for header in request.headers[values: .cookie] {
            for pair in header.split(separator: ";") {
                let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, parts[0].trimmingPrefix(while: { $0 == " " }) == wanted else { continue }
                found.append(String(parts[1]))
            }
        }
        return found.count == 1 ? found.first : nil
    }

    /// The `Set-Cookie` value for an id; an empty id removes the cookie.
    static func header(_ id: String, isSecure: Bool, lifetime: Duration) -> String {
        let age = id.isEmpty ? 0 : lifetime.components.seconds
        return "\(name(isSecure: isSecure))=\(id); Path=/; Max-Age=\(age); HttpOnly; SameSite=Strict"
            + (isSecure ? "; Secure" : "")
    }
}
