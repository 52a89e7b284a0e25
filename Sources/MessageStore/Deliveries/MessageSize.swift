/// The estimated memory of a message, for statements that read as many as fit.
package enum MessageSize {
    /// The size of a row of `messages`; 1,000 bytes cover the columns that are never large.
    ///
    /// Bodies are not read for it, unless they are compressed.
    package static let sql = """
        (1000 + coalesce(octet_length(extra), 0) + CASE
            WHEN data IS NULL THEN coalesce(octet_length(data_raw), 0)
            WHEN pg_column_compression(data) IS NULL THEN pg_column_size(data)
            ELSE octet_length(data::text)
        END)
        """
}
