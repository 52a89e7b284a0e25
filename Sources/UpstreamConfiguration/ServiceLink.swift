/// The variables that Kubernetes sets for each Service of the namespace, in its own form and Docker's:
/// `UPSTREAM_DB_SERVICE_HOST` for a Service named `upstream-db`.
///
/// They are not configuration: our variables always contain `__`, between a section and its key; these never do.
///
/// See "Environment variables" in Kubernetes' documentation of Services, and `enableServiceLinks` in that of pods.
enum ServiceLink {
    /// Whether a variable's name has one of the forms.
    static func isName(_ name: String) -> Bool {
        guard !name.contains("__") else { return false }
        var parts = name.split(separator: "_", omittingEmptySubsequences: false)[...]
        // Everything before is the Service's name, which may be `upstream` alone.
        while !parts.isEmpty {
            parts.removeFirst()
            if isEnd(parts) { return true }
        }
        return false
    }

    /// Whether these parts are `SERVICE_HOST`, `SERVICE_PORT`, `SERVICE_PORT_<name>`, `PORT`, `PORT_<n>_<protocol>`, or
    /// that with `PROTO`, `PORT` or `ADDR`.
    private static func isEnd(_ parts: ArraySlice<Substring>) -> Bool {
        let parts = Array(parts)
        switch parts.first {
        case "SERVICE":
            return parts.count == 2 && parts[1] == "HOST" || parts.count >= 2 && parts[1] == "PORT"
        case "PORT":
            guard parts.count > 1 else { return true }
            guard parts.count == 3 || parts.count == 4, Int(parts[1]) != nil else { return false }
            guard ["TCP", "UDP", "SCTP"].contains(parts[2]) else { return false }
            return parts.count == 3 || ["PROTO", "PORT", "ADDR"].contains(parts[3])
        default: return false
        }
    }
}
