import BuildInfo

enum Version {
    /// The semantic version; the CHANGELOG has an entry for it.
    static let current = "0.1.0"

    /// The output of `--version`: this program and the system libraries in use.
    static var text: String {
        let build = BuildInfo.isOptimised ? "release" : "debug"
        let first = "upstream-worker \(current) (commit \(BuildInfo.commit ?? "unknown"), \(build) build)"
        return ([first] + BuildInfo.libraries).joined(separator: "\n")
    }
}
