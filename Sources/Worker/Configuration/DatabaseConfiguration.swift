/// The database, and how batches are written to it.
package struct DatabaseConfiguration: Sendable, Equatable {
    /// A libpq connection string: URI or `key=value`.
    package var url: String
    /// Writers, each with a connection of its own.
    package var writers: Int
    /// Copies in one transaction at most.
    package var batchLimit: Int

    init(_ scope: ConfigurationScope) {
        url = scope.required(
            "url",
            .text,
            "libpq URI or key=value; `PG*` variables apply, several hosts work, passwords go to `passfile=`."
        )
        writers = scope.value("writers", .number(1...64), default: "2", "Parallel batch writers.")
        batchLimit = scope.value("batch_limit", .number(1...10_000), default: "500", "Rows in one transaction at most.")
        Self.check(url, scope)
    }

    /// The `url` of a section that may have its own; `note` is its default in the table.
    static func optionalURL(_ scope: ConfigurationScope, _ note: String, _ meaning: String) -> String? {
        let url = scope.optional("url", .text, note, meaning)
        if let url { check(url, scope) }
        return url
    }

    private static func check(_ url: String, _ scope: ConfigurationScope) {
        guard holdsPassword(url) else { return }
        scope.problem("url", "must not hold a password; put it into a file and add passfile=/path (see ~/.pgpass)")
    }

    /// Whether a connection string carries a password in any of the forms that libpq takes.
    private static func holdsPassword(_ url: String) -> Bool {
        let lowered = url.lowercased()
        guard let scheme = ["postgresql://", "postgres://"].first(where: { lowered.hasPrefix($0) }) else {
            return names(lowered.split { $0 == " " || $0 == "\t" })
        }
        let rest = lowered.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        if let at = authority.lastIndex(of: "@"), authority[..<at].contains(":") { return true }
        let query = rest.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        return names(query.split(separator: "&"))
    }

    private static func names(_ settings: [Substring]) -> Bool {
        settings.contains { setting in
            let name = setting.split(separator: "=", omittingEmptySubsequences: false).first ?? ""
            return name == "password" || name == "sslpassword"
        }
    }
}
