import ArgumentParser
import Postgres
import Querying
import Telemetry
import UpstreamKit
import Vocabulary
import Worker

/// How long a looking command may ask the database to work.
struct ReadOptions: ParsableArguments {
    @Option(help: ArgumentHelp("How long one statement may take, for example 2m.", valueName: "duration"))
    var timeout = DurationArgument(seconds: 30)
}

extension CommonOptions {
    /// Lends a connection that can't change anything.
    ///
    /// - Parameters:
    ///   - timeout: The limit of each statement in microseconds; nil for a day.
    ///   - body: Uses it.
    /// - Throws: What `body` throws; a query that took too long as ``CommandFailure``.
    /// - Returns: What `body` returns.
    func withReader<T>(timeout: Int64?, _ body: (PostgresConnection) async throws -> T) async throws -> T {
        do {
            return try await withDatabase(statementTimeout: Int(max(1, (timeout ?? 86_400_000_000) / 1_000))) {
                connection,
                _ in
                try await connection.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
                return try await body(connection)
            }
        } catch let error as PostgresError where error.sqlState == "57014" {
            throw CommandFailure(
                .temporaryFailure,
                "the database did not answer within --timeout: narrow the query (--category, --device, --since), or allow more"
            )
        } catch let error as PostgresError where error.sqlState == "2201B" {
            throw CommandFailure(.usage, "--where: \(error.message)")
        }
    }

    /// Says so where a query may have to read very many messages one by one, before it does.
    func warn(of filter: MessageFilter, _ connection: PostgresConnection) async throws {
        guard let rows = try await ScanEstimate.rowsToRead(filter, connection) else { return }
        let ways = [
            filter.categories.isEmpty ? "--category" : nil, filter.deviceKey == nil ? "--device" : nil,
            filter.since == nil ? "--since" : "a later --since", "--message-id",
        ].compactMap(\.self)
        Console.message(
            "note: this may read about \(Amount.count(rows)) messages one by one; narrow it with "
                + ways.dropLast().joined(separator: ", ") + " or " + (ways.last ?? "")
        )
    }
}

/// Times as tables show them.
enum ShownTime {
    /// To the second, in UTC: `2026-01-31 23:59:59Z`.
    static func short(_ microseconds: Int64) -> String {
        Timestamp(microseconds: microseconds).rfc3339.prefix(19).replacing("T", with: " ") + "Z"
    }

    /// In full: RFC 3339 with microseconds.
    static func full(_ microseconds: Int64) -> String { Timestamp(microseconds: microseconds).rfc3339 }
}
