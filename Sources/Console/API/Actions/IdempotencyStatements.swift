import HTTPTypes
import Postgres

/// The statements over `idempotency_keys`.
enum IdempotencyStatements {
    /// How long answers are kept.
    static let lifetime = Duration.seconds(86_400)

    /// Locks a key for this transaction; returns false if another transaction has it.
    static func lock(_ who: String, _ key: String) -> SQL {
        """
        SELECT pg_try_advisory_xact_lock(
            hashtextextended('upstream.idempotency ' || length(\(who))::text || ' ' || \(who) || ' ' || \(key), 0))
        """
    }

    /// The answer kept under a key.
    static func find(_ who: String, _ key: String) -> SQL {
        """
        SELECT request, status, location, answer FROM upstream.idempotency_keys
        WHERE who = \(who) AND key = \(key) AND created_at > now() - \(lifetime)
        """
    }

    /// Counts somebody's keys, up to a limit.
    static func used(_ who: String, limit: Int) -> SQL {
        """
        SELECT count(*) FROM (
            SELECT FROM upstream.idempotency_keys WHERE who = \(who) AND created_at > now() - \(lifetime) LIMIT \(limit)
        ) AS counted
        """
    }

    /// Keeps an answer, replacing an expired one.
    static func keep(_ who: String, _ key: String, request: [UInt8], _ answer: ActionAnswer) -> SQL {
        """
        INSERT INTO upstream.idempotency_keys (who, key, request, status, location, answer)
        VALUES (
            \(who), \(key), \(Bytea(request)), \(answer.status.code)::bigint::smallint, \(answer.location), \(Bytea(answer.body))
        )
        ON CONFLICT (who, key) DO UPDATE SET
            request = excluded.request, status = excluded.status, location = excluded.location, answer = excluded.answer,
            created_at = excluded.created_at
        """
    }

    static func sweep(limit: Int) -> SQL {
        """
        DELETE FROM upstream.idempotency_keys WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM upstream.idempotency_keys WHERE created_at < now() - \(lifetime)
            LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ))
        """
    }
}
