/// The variables that Kubernetes sets for each Service of the namespace, in its own form and Docker's:
/// `UPSTREAM_DB_SERVICE_HOST` for a Service named `upstream-db`.
///
/// They are not configuration: our variables always contain `__`, between a section and its key; these never do.
///
/// See "Environment variables" in Kubernetes' documentation of Services, and `enableServiceLinks` in that of pods.
enum ServiceLink {
    /// Whether a variable's name has one of the forms; the Service's own name may be `upstream` alone.
    static func isName(_ name: String) -> Bool {
        let form = /.+_(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)/
        return !name.contains("__") && name.wholeMatch(of: form) != nil
    }
}
