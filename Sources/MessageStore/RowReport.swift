import Postgres
import Vocabulary

/// The result of a function that stores rows.
///
/// It reports refusals instead of failing, so that PostgreSQL's log quotes no row. Only what it reports, and a text that
/// `text` can't hold, blames a message: any other error of a statement or its COMMIT is waited out.
enum RowReport {
    /// Some of their deliveries may be for other workers.
    case stored(Int, isElsewhere: Bool)
    /// A row was refused, or its day has no partition; the server's message, without any of the row's content.
    case failed(PostgresError)

    init(_ result: PostgresResult) throws(PostgresError) {
        self = try result.only { row throws(PostgresError) in
            let (stored, sqlState) = (try row.next(Int?.self), try row.next(String?.self))
            let (table, constraint) = (try row.next(String?.self), try row.next(String?.self))
            let isElsewhere = try row.hasMore ? row.next(Bool?.self) : nil
            if let sqlState { return try Self.refused(sqlState, table, constraint) }
            guard let stored else { throw PostgresError(.schema, "rows neither stored nor refused") }
            return .stored(stored, isElsewhere: isElsewhere ?? false)
        }
    }

    private static func refused(
        _ sqlState: String,
        _ table: String?,
        _ constraint: String?
    ) throws(PostgresError) -> RowReport {
        var error = PostgresError(
            sqlState: sqlState,
            severity: "ERROR",
            message: "PostgreSQL refused a row",
            // An empty name means none.
            table: table?.isEmpty == false ? table : nil,
            constraint: constraint?.isEmpty == false ? constraint : nil
        )
        switch error.failureClass {
        case .data, .constraint, .limit: error.refusesRow = true
        case .missingPartition: break
        default: throw error
        }
        return .failed(error)
    }

    /// How many rows were stored.
    @discardableResult
    func count() throws(PostgresError) -> Int {
        switch self {
        case .stored(let count, _): return count
        case .failed(let error): throw error
        }
    }
}

extension PostgresError {
    /// The same, blaming a row that `text` can't hold, if the server has refused a statement's parameters.
    func judged(_ batch: [IncomingMessage]) -> PostgresError {
        guard failureClass == .data else { return self }
        var error = self
        error.refusesRow = refusesRow || batch.contains { BatchPlan.reason($0) == nil && !$0.isHeldByText }
        return error
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
