/// About what a message takes in memory, for statements that read as many as fit.
package enum MessageSize {
    /// Of a row of `messages`, by its columns; about 1 KB is for those that are never large.
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
