import HTTPTypes
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// A request's filter of messages: the options of `messages list` as parameters.
struct FilterParameters: Sendable {
    static let single = ["sender", "device", "message_id", "since", "until"]
    static let repeatable = ["category", "where"]

    private var filter = MessageFilter()
    private let since: String?
    private let until: String?

    /// Reads the parameters, without the database.
    ///
    /// - Parameters:
    ///   - parameters: The parameters.
    ///   - showsPayloads: If false, `where` is refused: the answers would reveal payloads.
    ///   - principal: Who asks; without the right `reveal`, a clause on a registration token is refused.
    /// - Throws: A ``Problem`` that names the mistake.
    init(_ parameters: QueryParameters, showsPayloads: Bool, _ principal: Principal) throws(Problem) {
        filter.seesTokens = principal.may(.reveal)
        filter.categories = parameters.texts("category")
        filter.senderID = parameters.text("sender")
        filter.messageID = parameters.text("message_id")
        if let text = parameters.text("device") {
            guard let key = DeviceKey(text) else {
                throw .badRequest("'device' takes a device_key: 8-4-4-4-12 hexadecimal digits, never a token")
            }
            filter.deviceKey = key
        }
        let clauses = parameters.texts("where")
        guard clauses.isEmpty || showsPayloads else {
            throw .payloadsHidden
        }
        for text in clauses {
            do throws(FilterError) {
                filter.clauses.append(try WhereClause(parsing: text))
            } catch {
                throw .badRequest("'where': \(error)")
            }
        }
        guard filter.seesTokens || !filter.clauses.contains(where: \.isOnToken) else {
            throw .clauseOnToken
        }
        (since, until) = (parameters.text("since"), parameters.text("until"))
        // By our own clock, so that a mistake is reported without a database.
        filter = try judged(now: .now)
    }

    /// The filter, with ages counted back from the database's clock.
    ///
    /// - Parameter connection: The database.
    /// - Throws: ``PostgresError``, and a ``Problem`` if `since` is not before `until`.
    /// - Returns: The filter.
    func judged(_ connection: PostgresConnection) async throws -> MessageFilter {
        guard since != nil || until != nil else { return filter }
        return try judged(now: try await MessageTail.now(connection))
    }

    private func judged(now: Timestamp) throws(Problem) -> MessageFilter {
        var filter = filter
        filter.since = try Self.time(since, "since", now)
        filter.until = try Self.time(until, "until", now)
        if let since = filter.since, let until = filter.until, since >= until {
            throw .badRequest("'since' must be before 'until'")
        }
        return filter
    }

    /// Parses a time: an age, a day or a moment.
    static func time(_ text: String?, _ name: String, _ now: Timestamp) throws(Problem) -> Timestamp? {
        guard let text else { return nil }
        do throws(FilterError) {
            return try TimeExpression.parse(text, now: now)
        } catch {
            throw .badRequest(
                "'\(name)': \(error) — for example 2h, 30d, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z"
            )
        }
    }
}
