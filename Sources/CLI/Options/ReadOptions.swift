import ArgumentParser
import Postgres
import Querying
import Vocabulary

struct ReadOptions: ParsableArguments {
    @Option(help: ArgumentHelp("How long one statement may take, for example 2m.", valueName: "duration"))
    var timeout = DurationArgument(seconds: 30)
}

extension CommonOptions {
    /// Lends a read-only connection, with a limit for each statement in microseconds; nil for a day.
    ///
    /// - Throws: What `body` throws; a query that took too long or waited for a lock as ``CommandFailure``.
    func withReader<T>(
        _ context: CommandContext,
        timeout: Int64?,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        do {
            let limit = Int(max(1, (timeout ?? 86_400_000_000) / 1_000))
            return try await withDatabase(context, statementTimeout: limit) { connection, _ in
                try await connection.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
                return try await body(connection)
            }
        } catch let error as PostgresError where error.sqlState == "57014" || error.failureClass == .deadline {
            throw CommandFailure(
                .temporaryFailure,
                "the database did not answer within --timeout: narrow the query (--category, --device, --since), or allow more"
            )
        } catch let error as PostgresError where error.failureClass == .lock {
            throw CommandFailure(
                .temporaryFailure,
                "database: \(error): another session has locked the table: try again later"
            )
        } catch let error as PostgresError where error.sqlState == "2201B" {
            throw CommandFailure(.usage, "--where: \(error.message)")
        }
    }

    /// Warns before a query that may read very many messages one by one.
    func warn(of filter: MessageFilter, _ connection: PostgresConnection, _ console: Terminal) async throws {
        guard let rows = try await ScanEstimate.rowsToRead(filter, connection) else { return }
        let ways = [
            filter.categories.isEmpty ? "--category" : nil, filter.deviceKey == nil ? "--device" : nil,
            filter.since == nil ? "--since" : "a later --since", "--message-id",
        ].compactMap(\.self)
        console.message(
            "note: this may read about \(Amount.count(rows)) messages one by one; narrow it with "
                + ways.dropLast().joined(separator: ", ") + " or " + (ways.last ?? "")
        )
    }
}
