import Postgres
import UpstreamKit
import Vocabulary

enum TokenStatements {
    /// Each message's token, and the one in a receipt's data.
    static func tokens(_ places: [(key: MessageKey, receivedAt: Timestamp)]) -> SQL {
        """
        SELECT
            place.key, m.registration_token,
            CASE WHEN m.message_type = 'receipt' THEN m.data::jsonb ->> \(TokenMask.member) END
        FROM unnest(\(places.map(\.key.digest)), \(places.map(\.receivedAt))) AS place (key, at)
        CROSS JOIN LATERAL upstream.message_of(place.key, place.at) AS m
        """
    }
}
