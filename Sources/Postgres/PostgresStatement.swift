import Vocabulary

/// A statement's text and the name it is prepared under.
///
/// Make each one once, as a static constant: the name is derived from the text.
package struct PostgresStatement: Sendable {
    /// The text, with `$1`, `$2` … for the parameters.
    package let sql: String
    /// Unique to the text, so that it may be shared with others behind a pooler that tracks prepared statements.
    let name: String

    package init(_ sql: String) {
        self.sql = sql
        name = "upstream_" + Hex.encode(FNV1a.hash(sql))
    }
}
