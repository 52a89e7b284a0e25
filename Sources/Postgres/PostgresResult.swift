import CLibPQ
import Vocabulary

/// The rows that a statement returned, in binary form; the one owner of their `PGresult`.
///
/// Immutable once made, so it may be read from any thread.
package final class PostgresResult: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over what a `PQgetResult` call returned.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { PQclear(pointer) }

    /// The number of rows.
    package var count: Int { Int(PQntuples(pointer)) }

    /// The number of columns.
    package var columnCount: Int { Int(PQnfields(pointer)) }

    /// The rows that an INSERT, UPDATE or DELETE touched; 0 for anything else.
    package var affectedRows: Int {
        // libpq owns the text.
        Int(String(cString: PQcmdTuples(pointer))) ?? 0
    }

    /// Whether the value is null.
    package func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(pointer, Int32(row), Int32(column)) == 1
    }

    /// Lends the bytes of a value; empty for null.
    package func withBytes<T>(_ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        // libpq owns the bytes until PQclear.
        let start = PQgetvalue(pointer, Int32(row), Int32(column))
        let count = Int(PQgetlength(pointer, Int32(row), Int32(column)))
        return withExtendedLifetime(self) { body(UnsafeRawBufferPointer(start: start, count: count)) }
    }

    /// A value of type `text`, `json`, `name` or `bytea` as bytes; nil for null.
    package func bytes(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column) ? nil : withBytes(row, column) { [UInt8]($0) }
    }

    /// A value of type `text`, `json` or `name`; nil for null.
    package func text(_ row: Int, _ column: Int) -> String? {
        isNull(row, column) ? nil : withBytes(row, column) { String(decoding: $0, as: UTF8.self) }
    }

    /// A value of type `bool`; nil for null.
    package func bool(_ row: Int, _ column: Int) -> Bool? {
        isNull(row, column) ? nil : withBytes(row, column) { $0.first == 1 }
    }

    /// A value of type `int2`, `int4` or `int8`; nil for null, and for a value of another length.
    package func integer(_ row: Int, _ column: Int) -> Int64? {
        guard !isNull(row, column) else { return nil }
        return withBytes(row, column) { bytes in
            switch bytes.count {
            case 2: Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
            case 4: Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
            case 8: Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
            default: nil
            }
        }
    }

    /// A value of type `timestamptz` in microseconds since 1970-01-01 UTC; nil for null.
    package func timestamp(_ row: Int, _ column: Int) -> Int64? {
        integer(row, column).map { $0 &+ postgresEpochMicroseconds }
    }

    /// A value of type `uuid` as two big-endian halves; nil for null.
    package func uuid(_ row: Int, _ column: Int) -> (high: UInt64, low: UInt64)? {
        guard !isNull(row, column) else { return nil }
        return withBytes(row, column) { bytes in
            guard bytes.count == 16 else { return nil }
            return (
                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// The failure that the result stands for; nil when it stands for success.
    var error: PostgresError? {
        switch PQresultStatus(pointer) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_SINGLE_TUPLE, PGRES_COPY_OUT, PGRES_EMPTY_QUERY:
            return nil
        default:
            let message = field(upstream_diag_message)
            guard let sqlState = field(upstream_diag_sqlstate) else {
                // libpq's own words, not the server's: the connection broke. libpq owns the text.
                let text = message ?? String(cString: PQresultErrorMessage(pointer))
                return PostgresError(.connection, text.split(separator: "\n").joined(separator: "; "))
            }
            return PostgresError(
                sqlState: sqlState,
                severity: field(upstream_diag_severity),
                message: message ?? "no message",
                table: field(upstream_diag_table),
                constraint: field(upstream_diag_constraint)
            )
        }
    }

    private func field(_ code: Int32) -> String? {
        // libpq owns the text.
        PQresultErrorField(pointer, code).map { String(cString: $0) }
    }
}
