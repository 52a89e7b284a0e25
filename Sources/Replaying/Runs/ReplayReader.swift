import Postgres
import Querying
package import UpstreamKit
import Vocabulary

/// One message of a replay's selection, on its way to a target.
package struct ReplayItem: Sendable {
    /// Its position in the selection, from 0.
    package var position: Int64
    var receivedAt: Timestamp
    var page: MessagePage
    /// The number of the row in ``page``.
    var row: Int

    /// Whether retention or `forget` has deleted the body since the replay was planned.
    var isGone: Bool { page.cursor(row) == nil }

    /// The message; nil if its body is gone.
    ///
    /// - Throws: ``ReplayError`` if the row is not that of a message.
    package func message() throws(ReplayError) -> UpstreamMessage? {
        guard !isGone else { return nil }
        do throws(PostgresError) {
            return try page.message(row).message
        } catch {
            throw ReplayError(.invalid, "can't read a message of the replay: \(error)")
        }
    }
}

/// Reads selections with their messages.
enum ReplayReader {
    /// The messages of a span; fewer if its first chunk ends earlier.
    static func read(
        _ connection: isolated PostgresConnection,
        _ span: SelectionStatements.Span
    ) throws(PostgresError) -> [ReplayItem] {
        let result = try connection.run(SelectionStatements.messages, span)
        let page = try MessagePage(result)
        let places = try result.map { row throws(PostgresError) in
            (position: try row.value("place", as: Int64.self), time: try row.value("selected_at", as: Timestamp.self))
        }
        return places.enumerated().map {
            ReplayItem(position: $1.position, receivedAt: $1.time, page: page, row: $0)
        }
    }

    /// The `received_at` of the messages of a span, likewise.
    static func times(
        _ connection: isolated PostgresConnection,
        _ span: SelectionStatements.Span
    ) throws(PostgresError) -> [Timestamp] {
        try connection.run(SelectionStatements.times, span).map { row throws(PostgresError) in try row.next() }
    }
}
