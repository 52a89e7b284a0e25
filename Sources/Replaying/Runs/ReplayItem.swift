import Postgres
import Querying
package import UpstreamKit
import Vocabulary

/// One message of a replay's selection, on its way to a target.
package struct ReplayItem: Sendable {
    package var position: Int64
    var receivedAt: Timestamp
    var page: MessagePage
    var row: Int

    /// Whether retention or `forget` has deleted the body since the replay was planned.
    var isGone: Bool { page[row] == nil }

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

    /// The messages of a span of a selection; fewer if its first chunk ends earlier.
    static func read(
        _ connection: isolated PostgresConnection,
        _ span: SelectionStatements.Span
    ) throws(PostgresError) -> [ReplayItem] {
        let result = try connection.run(SelectionStatements.messages, span)
        let page = try MessagePage(result)
        var row = -1
        return try result.map { values throws(PostgresError) in
            row += 1
            let (position, time): (Int64, Timestamp) = (try values.value("place"), try values.value("selected_at"))
            return ReplayItem(position: position, receivedAt: time, page: page, row: row)
        }
    }
}
