import MessageStore
import Postgres
import Vocabulary

/// The statements over `jobs` and `job_items`.
enum JobStatements {
    /// How many rows of `dead_letters` a row of `job_items` holds and one transaction processes.
    static let chunkSize = 1_000
    /// How long a frozen set can be started.
    static let lifetime = Duration.seconds(15 * 60)

    /// Freezes the dead letters of a filter and returns the job; returns no row if none match.
    ///
    /// One statement, so one snapshot: dead letters that are added or retried meanwhile change neither the set nor its
    /// counts.
    static func freeze(_ fate: DeadLetters.Fate, _ filter: DeadLetterFilter, who: String, most: Int) -> SQL {
        """
        WITH frozen AS MATERIALIZED (
            SELECT
                handler, message_key, died_at, error_group,
                ((row_number() OVER (ORDER BY handler, received_at, message_key) - 1) / \(chunkSize))::integer AS chunk
            FROM (
                SELECT handler, message_key, received_at, died_at, error_group
                FROM upstream.dead_letters WHERE \(filter.condition) LIMIT \(most)
            ) AS chosen
        ), counted AS (
            SELECT handler, left(error_group, 200) AS error_group, count(*) AS count FROM frozen
            GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 50
        ), made AS (
            INSERT INTO upstream.jobs (action, subject, groups, planned, chunks, created_by, expires_at)
            SELECT
                \(fate.action.rawValue), \("dead letters" + filter.description), (SELECT json_agg(counted) FROM counted), count(*), max(chunk) + 1, \(who),
                now() + \(lifetime)
            FROM frozen HAVING count(*) > 0
            RETURNING *
        ), items AS (
            INSERT INTO upstream.job_items (job, chunk, handler, message_key, died_at)
            SELECT made.job, frozen.chunk, array_agg(frozen.handler), array_agg(frozen.message_key), array_agg(frozen.died_at)
            FROM made CROSS JOIN frozen GROUP BY made.job, frozen.chunk
        )
        SELECT \(columns) FROM made
        """
    }

    /// Counts the sets that can be started, up to a limit.
    static func planned(limit: Int) -> SQL {
        counted("jobs WHERE state = 'planned' AND expires_at > now()", limit)
    }

    /// Counts the replays to handlers that are planned and never started, up to a limit.
    static func plannedReplays(limit: Int) -> SQL {
        counted("replays WHERE state = 'planned' AND kind = 'handlers'", limit)
    }

    private static func counted(_ rows: SQL, _ limit: Int) -> SQL {
        "SELECT count(*) FROM (SELECT FROM upstream.\(rows) LIMIT \(limit)) AS counted"
    }

    /// Counts the rows of sets that can be started and of running jobs; other jobs have no items.
    static let held: SQL = """
        SELECT coalesce(sum(planned), 0)::bigint FROM upstream.jobs
        WHERE state = 'running' OR state = 'planned' AND expires_at > now()
        """

    /// Deletes the items of expired sets; the sets stay for a while, so that starting one gives a clear answer.
    static let release: SQL = """
        DELETE FROM upstream.job_items WHERE job IN (
            SELECT job FROM upstream.jobs WHERE state = 'planned' AND expires_at <= now() FOR UPDATE SKIP LOCKED
        )
        """

    /// Starts a job and returns it; returns no row unless it is a set of this action that can be started.
    static func start(_ job: Digest128, _ action: String, who: String, reason: String?, rate: RetryRate? = nil) -> SQL {
        """
        UPDATE upstream.jobs SET
            state = 'running', started_by = \(who), started_at = now(), reason = \(reason),
            rate = \(rate.map { "\($0.perSecond)" })::text::double precision
        WHERE job = \(job) AND action = \(action) AND state = 'planned' AND expires_at > now()
        RETURNING \(columns)
        """
    }

    static func cancel(_ job: Digest128) -> SQL {
        """
        UPDATE upstream.jobs SET state = 'cancelled', finished_at = now()
        WHERE job = \(job) AND state IN ('planned', 'running')
        RETURNING \(columns)
        """
    }

    static func find(_ job: Digest128) -> SQL {
        "SELECT \(columns) FROM upstream.jobs WHERE job = \(job)"
    }

    /// The jobs that were started, the running ones first, then the latest; `isRunning` leaves out those that have ended.
    static func list(isRunning: Bool, limit: Int) -> SQL {
        """
        SELECT \(columns) FROM upstream.jobs
        WHERE \(isRunning ? "state = 'running'" as SQL : "started_at IS NOT NULL")
        ORDER BY state = 'running' DESC, started_at DESC LIMIT \(limit)
        """
    }

    private static let columns: SQL = """
        job, action, subject, state, planned, done, skipped, created_by, created_at, expires_at,
        state = 'planned' AND expires_at <= now(), started_by, started_at, reason, finished_at, last_error,
        groups, rate, due_to
        """

    // MARK: Running

    /// The running jobs, oldest first, those with an error last.
    static let running: SQL = """
        SELECT job FROM upstream.jobs WHERE state = 'running' ORDER BY last_error IS NOT NULL, created_at LIMIT 100
        """

    /// Locks a running job for its next step; returns no row if it has ended, or another console works on it.
    static func lock(_ job: Digest128) -> SQL {
        """
        SELECT action, subject, planned, chunks, next_chunk, done, started_by, reason, rate, greatest(now(), due_to)
        FROM upstream.jobs WHERE job = \(job) AND state = 'running' FOR UPDATE SKIP LOCKED
        """
    }

    /// The part `gone` of ``DeadLetters/Fate/run(_:on:)``: deletes a chunk's dead letters that still exist; waits for rows
    /// that are locked.
    ///
    /// `died_at` is compared in a form that no index supports: many letters die at the same time, and the index by
    /// handler and died_at would read all of them for each one (measured: 15 s for 1,000 of 100,000; by the primary key
    /// 30 ms).
    static func gone(_ job: Digest128, _ chunk: Int) -> SQL {
        """
        item AS MATERIALIZED (
            SELECT entry.* FROM upstream.job_items AS i
            CROSS JOIN LATERAL unnest(i.handler, i.message_key, i.died_at) AS entry (handler, message_key, died_at)
            WHERE i.job = \(job) AND i.chunk = \(chunk)
        ), gone AS (
            DELETE FROM upstream.dead_letters AS l USING item
            WHERE l.message_key = item.message_key AND l.handler = item.handler
                AND l.died_at - item.died_at = interval '0'
            RETURNING l.*
        )
        """
    }

    /// Adds a chunk to a job's progress, with when its last row is due; the last one finishes the job.
    static func advance(_ job: Digest128, done: Int, skipped: Int, isLast: Bool, dueTo: Timestamp? = nil) -> SQL {
        """
        UPDATE upstream.jobs SET
            next_chunk = next_chunk + 1, done = done + \(done), skipped = skipped + \(skipped), last_error = NULL,
            due_to = coalesce(\(dueTo), due_to),
            state = CASE WHEN \(isLast) THEN 'finished' ELSE state END,
            finished_at = CASE WHEN \(isLast) THEN now() END
        WHERE job = \(job)
        """
    }

    /// Marks a running job as failed and returns it.
    static func fail(_ job: Digest128, _ error: String) -> SQL {
        """
        UPDATE upstream.jobs SET state = 'failed', finished_at = now(), last_error = left(\(error), 1000)
        WHERE job = \(job) AND state = 'running'
        RETURNING \(columns)
        """
    }

    /// Stores the error that delays a running job, if it is new; ``advance(_:done:skipped:isLast:)`` clears it.
    static func note(_ job: Digest128, _ error: String) -> SQL {
        """
        UPDATE upstream.jobs SET last_error = left(\(error), 1000)
        WHERE last_error IS DISTINCT FROM left(\(error), 1000) AND job = (
            SELECT job FROM upstream.jobs WHERE job = \(job) AND state = 'running' FOR UPDATE SKIP LOCKED
        )
        """
    }

    static func deleteItems(_ job: Digest128) -> SQL { "DELETE FROM upstream.job_items WHERE job = \(job)" }

    /// Deletes sets that expired an hour ago, and jobs that ended a week ago.
    static func sweep(limit: Int) -> SQL {
        """
        DELETE FROM upstream.jobs WHERE job IN (
            SELECT job FROM upstream.jobs
            WHERE state = 'planned' AND expires_at < now() - interval '1 hour' OR finished_at < now() - interval '7 days'
            LIMIT \(limit) FOR UPDATE SKIP LOCKED
        )
        """
    }
}
