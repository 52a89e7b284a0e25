import Vocabulary

/// What a server is, by the text of its `version()`.
package struct DatabaseEngine: Sendable, Equatable {
    /// Its product's name.
    package let name: String
    /// Why it can't keep the guarantees; nil for PostgreSQL and what is built from the whole of it.
    package let lacks: String?

    /// Reads `version()`.
    package init(version: String) {
        let text = version.lowercased()
        if let product = Self.others.first(where: { text.contains($0.mark) }) {
            (name, lacks) = (product.name, product.lacks)
        } else if text.hasPrefix("postgresql ") {
            (name, lacks) = ("PostgreSQL", nil)
        } else {
            (name, lacks) = ("another engine", Self.unknown)
        }
    }

    /// The refusal; nil for PostgreSQL.
    package var refusal: PostgresError? {
        lacks.map { PostgresError(.schema, "the server is \(name) and not PostgreSQL: \($0)") }
    }

    private static let unknown = "its locks and transactions are its own, and nothing is tested on it"
    private static let spread =
        "rows are spread over servers, and unique keys hold only with the column that spreads them"

    /// What others' `version()` holds, in lower case, and what they lack by their own documents (docs/databases.md).
    private static let others: [(mark: String, name: String, lacks: String)] = [
        ("cockroachdb", "CockroachDB", "its advisory locks do nothing, and it has no LISTEN and NOTIFY"),
        ("-yb-", "YugabyteDB", "its rows have no xmin and ctid, by which followers and clean-up find them"),
        ("redshift", "Amazon Redshift", "it does not enforce unique keys, so messages would be stored twice"),
        ("greenplum", "Greenplum", spread),
        ("cloudberry", "Cloudberry", spread),
        ("materialize", "Materialize", unknown),
        ("risingwave", "RisingWave", unknown),
        ("cratedb", "CrateDB", unknown),
        ("questdb", "QuestDB", unknown),
        ("opengauss", "openGauss", unknown),
        ("gaussdb", "GaussDB", unknown),
    ]
}
