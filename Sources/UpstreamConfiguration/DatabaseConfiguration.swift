import ConfigurationKeys

/// The database, and the batches written to it.
package struct DatabaseConfiguration: Sendable, Equatable {
    package var url: String
    package var writers: Int
    package var batchLimit: Int

    init(_ scope: ConfigurationScope) {
        url = scope.required("url", .text)
            .means("libpq URI or key=value; `PG*` variables apply, several hosts work, passwords go to `passfile=`.")
        writers = scope.value("writers", .number(1...64), default: "2").means("Parallel batch writers.")
        batchLimit = scope.value("batch_limit", .number(1...10_000), default: "500")
            .means("Rows in one transaction at most.")
        Self.check(url, scope)
    }

    /// A section's own `url`, if any; `note` is its default in the table.
    static func optionalURL(_ scope: ConfigurationScope, _ note: String, _ meaning: String) -> String? {
        let url = scope.optional("url", .text, note).means(meaning)
        if let url { check(url, scope) }
        return url
    }

    private static func check(_ url: String, _ scope: ConfigurationScope) {
        guard CredentialText(url).holdsPassword else { return }
        scope.problem("url", "must not hold a password; put it into a file and add passfile=/path (see ~/.pgpass)")
    }
}
