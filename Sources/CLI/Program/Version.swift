import BuildInfo

/// The version of the program.
enum Version {
    /// Semantic version; the CHANGELOG has an entry for it.
    static let current = "0.1.0"

    /// What `--version` prints: this program, then the system's libraries that it runs with.
    static var text: String {
        let build = BuildInfo.isOptimised ? "release" : "debug"
        let first = "upstream-worker \(current) (commit \(BuildInfo.commit ?? "unknown"), \(build) build)"
        return ([first] + BuildInfo.libraries).joined(separator: "\n")
    }
}
