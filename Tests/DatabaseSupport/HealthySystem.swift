/// The rows of a system that runs well.
package enum HealthySystem {
    /// A policy, a recent run of retention, and a worker whose sender is bound.
    package static var rows: String {
        """
        INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
        VALUES ('30 days', '35 days', '90 days', '7 days');
        INSERT INTO upstream.retention_runs (
            finished_at, started_at, partitions_dropped, partitions_held, ids_deleted, conflicts_deleted,
            quarantine_deleted)
        VALUES (now(), now(), 0, 0, 0, 0, 0);
        \(worker())
        """
    }

    /// A worker's row.
    package static func worker(
        _ name: String = "host:1",
        version: String = "1.0.0",
        roles: String = "receive,dispatch",
        age: String = "0 s",
        inFlight: Int = 0,
        bound: Int = 1,
        clockAhead: String = "0",
        handlers: String = "[]"
    ) -> String {
        """
        INSERT INTO upstream.workers VALUES (
            gen_random_uuid(), '\(name)', '\(version)', '{\(roles)}', now() - interval '1 day', now() - interval '\(age)',
            false, \(inFlight), '[{"sender": "1234567890", "connecting": 0, "bound": \(bound), "draining": 0}]',
            '{"seconds": 5, "received": 0, "stored": 0, "duplicates": 0, "acked": 0, "handled": 0, "clock_ahead": \(clockAhead)}', '\(handlers)');
        """
    }
}
