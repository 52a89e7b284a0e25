import Postgres
import Vocabulary

/// Why a commit failed.
///
/// Only ``refused(_:)`` blames a message, and only this file makes a ``RowRefusal``: any other error of a statement or
/// its COMMIT, whatever its SQLSTATE, is waited out.
enum CommitFailure: StatementFailure {
    case database(PostgresError)
    case refused(RowRefusal)

    /// Whether the messages' times are too far from the database's.
    var isMisdated: Bool {
        guard case .database(let error) = self else { return false }
        return error.sqlState == StoreStatements.misdated
    }
}

/// Evidence that PostgreSQL refuses a row's content.
///
/// The function that stores the rows caught the error and reports it, or a row holds what `text` can't.
struct RowRefusal: Error {
    /// The server's message, without any of the row's content.
    let error: PostgresError

    fileprivate init(_ error: PostgresError) { self.error = error }

    /// Checks for a row that `text` can't hold; only if the server has refused a statement's parameters.
    init?(_ error: PostgresError, in batch: [IncomingMessage]) {
        guard error.failureClass == .data else { return nil }
        let isAnyUnfit = batch.contains { message in
            BatchPlan.reason(message) == nil && !message.isHeldByText
        }
        guard isAnyUnfit else { return nil }
        self.error = error
    }
}

/// The result of a function that stores rows.
///
/// It reports refusals instead of failing, so that PostgreSQL's log quotes no row.
enum RowReport {
    case stored(Int)
    case refused(RowRefusal)
    /// A row's day has no partition.
    case missingPartition(PostgresError)

    init(_ result: PostgresResult) throws(PostgresError) {
        self = try result.only { row throws(PostgresError) in
            let stored = try row.next(Int?.self)
            let sqlState = try row.next(String?.self)
            let table = try row.next(String?.self)
            let constraint = try row.next(String?.self)
            guard let sqlState else {
                guard let stored else { throw PostgresError(.schema, "rows neither stored nor refused") }
                return .stored(stored)
            }
            let error = PostgresError(
                sqlState: sqlState,
                severity: "ERROR",
                message: "PostgreSQL refused a row",
                // An empty name means none.
                table: table?.isEmpty == false ? table : nil,
                constraint: constraint?.isEmpty == false ? constraint : nil
            )
            switch error.failureClass {
            case .data, .constraint, .limit: return .refused(RowRefusal(error))
            case .missingPartition: return .missingPartition(error)
            default: throw error
            }
        }
    }

    /// How many rows were stored.
    @discardableResult
    func count() throws(CommitFailure) -> Int {
        switch self {
        case .stored(let count): return count
        case .refused(let refusal): throw .refused(refusal)
        case .missingPartition(let error): throw .database(error)
        }
    }
}

extension IncomingMessage {
    /// Whether PostgreSQL's `text` can hold every stored text: UTF-8 without U+0000.
    fileprivate var isHeldByText: Bool { texts.allSatisfy(isHeldByText) }

    /// Whether PostgreSQL's `text` can hold a part of the message.
    func isHeldByText(_ span: ByteSpan?) -> Bool {
        guard let span else { return true }
        return bytes.withUnsafeBytes { bytes in
            let text = bytes[span.range]
            return !text.contains(0) && String(validating: text, as: UTF8.self) != nil
        }
    }
}
