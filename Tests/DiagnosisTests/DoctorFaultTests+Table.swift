import DatabaseSupport
import Diagnosis
import Postgres
import Testing

extension DoctorFaultTests {
    private static func index(_ name: String, _ text: String) -> Fault {
        Fault(
            name: "index-missing",
            text: text,
            make: { try await $0.run("DROP INDEX upstream.\(name)") },
            statement: "CREATE INDEX CONCURRENTLY \(name) .*"
        )
    }

    private static let terminate = #"SELECT pg_terminate_backend\(\d+\)"#

    static let faults = [
        index("deliveries_kind_idx", "the index deliveries_kind_idx of upstream.deliveries is missing"),
        index("deliveries_crashes_idx", "the index deliveries_crashes_idx of upstream.deliveries is missing"),
        index("deliveries_device_idx", "the index deliveries_device_idx of upstream.deliveries is missing"),
        index("deliveries_replay_id_idx", "the index deliveries_replay_id_idx of upstream.deliveries is missing"),
        Fault(
            name: "index-missing",
            text: "the index deliveries_pkey of upstream.deliveries is missing",
            make: { try await $0.run("ALTER TABLE upstream.deliveries DROP CONSTRAINT deliveries_pkey") },
            statement: "ALTER TABLE upstream.deliveries ADD CONSTRAINT .*"
        ),
        Fault(
            name: "index-missing",
            text: "the index messages_category_received_at_idx of upstream.messages is missing",
            make: { try await $0.run("DROP INDEX upstream.messages_category_received_at_idx") },
            statement: "CREATE INDEX messages_category_received_at_idx .*"
        ),
        Fault(
            name: "index-invalid",
            text: "the index upstream.quarantine_received_at_idx is invalid",
            make: {
                try await $0.run(
                    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'upstream.quarantine_received_at_idx'::regclass"
                )
            },
            statement: #"REINDEX INDEX CONCURRENTLY upstream\.\w+"#
        ),
        Fault(
            name: "trigger-missing",
            text: "the trigger audit_row_guard of upstream.audit is missing",
            make: { try await $0.run("DROP TRIGGER audit_row_guard ON upstream.audit") },
            statement: "CREATE TRIGGER .*"
        ),
        Fault(
            name: "trigger-missing",
            text: "the trigger audit_table_guard of upstream.audit is disabled",
            make: { try await $0.run("ALTER TABLE upstream.audit DISABLE TRIGGER audit_table_guard") },
            statement: "ALTER TABLE .*"
        ),
        Fault(
            name: "rights-missing",
            text: "the workers' role faults_worker lacks INSERT ON upstream.messages: what needs that fails",
            make: { try await $0.run("REVOKE INSERT ON upstream.messages FROM upstream_worker") },
            statement: "GRANT upstream_worker TO .*",
            mend: { try await $0.run(try DeployedRoles.script()) }
        ),
        Fault(
            name: "rights-missing",
            text: "the workers' role faults_worker lacks USAGE ON SCHEMA upstream",
            make: { try await $0.run("REVOKE upstream_worker FROM faults_worker") },
            statement: "GRANT upstream_worker TO .*",
            mend: { try await $0.run(try DeployedRoles.script()) }
        ),
        Fault(
            name: "lock-held",
            text: "session ",
            limits: { $0.lockWait = .milliseconds(100) },
            make: { stage in
                try await stage.session("BEGIN; LOCK TABLE upstream.messages IN SHARE MODE")
                let writer = try await stage.session("SET lock_timeout = 0")
                // Ends with the fix, which lets it go on.
                Task {
                    try? await writer.run { connection throws(PostgresError) in
                        try connection.script(DoctorFixture.messages(1, from: "now()"))
                    }
                }
                try await stage.fixture.database.waitUntil(
                    """
                    SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND waitstart < now() - interval '100 ms'
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
                    """
                )
            },
            statement: terminate
        ),
        Fault(
            name: "lock-held",
            text: "session ",
            limits: { $0.lockHeld = .zero },
            make: {
                try await $0.session("BEGIN; LOCK TABLE upstream.message_ids, upstream.messages IN EXCLUSIVE MODE")
            },
            statement: terminate
        ),
        Fault(
            name: "idle-in-transaction",
            text: "session ",
            limits: { $0.idle = .zero },
            make: { try await $0.session("BEGIN; SELECT 1 FROM upstream.handlers") },
            statement: terminate
        ),
        Fault(
            name: "transaction-old",
            text: "session ",
            limits: { $0.transaction = .zero },
            make: { try await $0.session("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM upstream.handlers") },
            statement: terminate
        ),
        Fault(
            name: "prepared-transaction",
            text: "the prepared transaction 'left' of upstream has waited",
            limits: { $0.prepared = .zero },
            make: { try await $0.session("BEGIN; SELECT txid_current(); PREPARE TRANSACTION 'left'") },
            statement: "ROLLBACK PREPARED 'left'"
        ),
        Fault(
            name: "replication-slot-inactive",
            text: "the replication slot 'left' is read by nobody",
            make: { try await $0.run("SELECT pg_create_physical_replication_slot('left', true)") },
            statement: #"SELECT pg_drop_replication_slot\('left'\)"#
        ),
        Fault(
            name: "replication-slot-inactive",
            text: "the replication slot 'left' is read by nobody and has lost write-ahead log that its reader needs",
            make: { stage in
                try await stage.limitSlots("1MB")
                try await stage.run("SELECT pg_create_logical_replication_slot('left', 'pgoutput')")
                try await stage.writeLog(segments: 3)
            },
            statement: #"SELECT pg_drop_replication_slot\('left'\)"#,
            mend: { try await $0.limitSlots("-1") }
        ),
        Fault(
            name: "replication-slot-behind",
            text: "the replication slot 'slow' is read and keeps ",
            make: { stage in
                // Less than max_wal_size, so that the share alone tells: 48 to 64 MiB.
                try await stage.limitSlots("80MB")
                try await stage.run("SELECT pg_create_logical_replication_slot('slow', 'test_decoding')")
                try await stage.read("slow")
                try await stage.writeLog(segments: 4)
            },
            statement: #"SELECT \* FROM pg_stat_replication"#,
            // What slows it is that it is frozen.
            mend: { stage in
                try await stage.endReaders()
                try await stage.run("SELECT pg_drop_replication_slot('slow')")
                try await stage.limitSlots("-1")
            }
        ),
        Fault(
            name: "connections-nearly-used",
            text: "the role faults_worker has 1 of the 1 session that its connection limit allows",
            make: {
                try await $0.run("ALTER ROLE faults_worker CONNECTION LIMIT 1")
                try await $0.session(as: "faults_worker", "SELECT 1")
            },
            statement: "ALTER ROLE .*"
        ),
        Fault(
            name: "connections-nearly-used",
            text: "the database ",
            make: { stage in
                let name = try await stage.fixture.database.text("SELECT current_database()::text") ?? ""
                try await stage.run("ALTER DATABASE \(name) CONNECTION LIMIT 2")
            },
            statement: "ALTER DATABASE .*"
        ),
        Fault(
            name: "default-partition",
            text: "upstream.messages has a default partition, upstream.messages_rest",
            others: ["no-partition-today"],
            make: { stage in
                try await stage.run(DoctorTests.drop(0))
                try await stage.run("CREATE TABLE upstream.messages_rest PARTITION OF upstream.messages DEFAULT")
                try await stage.run(DoctorFixture.messages(3, from: "date_trunc('day', now(), 'UTC')", over: "1 ms"))
            },
            statement: "ALTER TABLE upstream.messages DETACH PARTITION upstream.messages_rest",
            mend: { stage in
                try await stage.run("SELECT upstream.ensure_partitions(current_date - 1, current_date + 7)")
                try await stage.run("INSERT INTO upstream.messages SELECT * FROM upstream.messages_rest")
                try await stage.run("DROP TABLE upstream.messages_rest")
                #expect(try await stage.fixture.database.integer("SELECT count(*) FROM upstream.messages") == 3)
            }
        ),
    ]
}
