import CLibPQ
import Vocabulary

/// The rows that a statement returned, in binary form; the one owner of their `PGresult`.
///
/// Immutable, so it may be read from any thread.
package final class PostgresResult: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over the result of a `PQgetResult` call.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { PQclear(pointer) }

    package var count: Int { Int(PQntuples(pointer)) }

    /// The rows that an INSERT, UPDATE or DELETE changed; 0 for anything else.
    package var affectedRows: Int {
        // libpq owns the text.
        Int(String(cString: PQcmdTuples(pointer))) ?? 0
    }

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

    func text(_ row: Int, _ column: Int) -> String? {
        isNull(row, column) ? nil : withBytes(row, column) { String(decoding: $0, as: UTF8.self) }
    }

    /// The failure that the result reports; nil for success.
    var error: PostgresError? {
        switch PQresultStatus(pointer) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_SINGLE_TUPLE, PGRES_COPY_OUT, PGRES_EMPTY_QUERY:
            return nil
        default:
            let message = field(upstream_diag_message)
            guard let sqlState = field(upstream_diag_sqlstate) else {
                // libpq's message, not the server's: the connection broke. libpq owns the text.
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
