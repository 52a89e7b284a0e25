import Vocabulary

/// A statement's text and its prepared name.
///
/// Make each one once, as a static constant: the name is derived from the text.
package struct PostgresStatement: Sendable {
    /// The text, with `$1`, `$2` … for the parameters.
    package let sql: String
    /// Derived from the text, so clients behind a pooler that tracks prepared statements may share it.
    let name: String

    package init(_ sql: String) {
        self.sql = sql
        name = "upstream_" + Hex.encode(FNV1a.hash(sql))
    }
}
