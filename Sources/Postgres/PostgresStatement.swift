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
        // FNV-1a, 64 bits.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in sql.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        name = "upstream_" + String(hash, radix: 16)
    }
}
