import Testing

@Suite("the catalog explains itself, and gives away no more than it should")
struct CatalogTests {
    @Test("every table, partition, column, view, sequence, function and the schema has a comment")
    func comments() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            "CREATE VIEW upstream.bare AS SELECT 1 AS x; CREATE FUNCTION upstream.bare() RETURNS int LANGUAGE sql AS 'SELECT 1'"
        )
        // What has none is found, so that the test can fail.
        var found = try await bare(fixture)
        #expect(found == "bare bare() bare.x")
        try await fixture.script("DROP VIEW upstream.bare; DROP FUNCTION upstream.bare()")
        found = try await bare(fixture)
        #expect(found == nil)
    }

    private func bare(_ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            """
            SELECT string_agg(name, ' ' ORDER BY name) FROM (
                SELECT relname::text AS name FROM pg_class
                WHERE relnamespace = 'upstream'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
                    AND obj_description(oid, 'pg_class') IS NULL
                UNION ALL
                SELECT format('%s.%s', relname, attname) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
                WHERE relnamespace = 'upstream'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND attnum > 0
                    AND NOT attisdropped AND col_description(attrelid, attnum) IS NULL
                UNION ALL
                SELECT format('%s(%s)', proname, pg_get_function_identity_arguments(oid)) FROM pg_proc
                WHERE pronamespace = 'upstream'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
                UNION ALL
                SELECT nspname FROM pg_namespace WHERE nspname = 'upstream' AND obj_description(oid, 'pg_namespace') IS NULL
            ) AS bare
            """
        )
    }

    @Test("functions that run with their owner's rights have a search path of their own and are nobody's to call")
    func definers() async throws {
        let fixture = try await StoreFixture()
        let names = try await fixture.text(
            """
            SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
            WHERE pronamespace = 'upstream'::regnamespace AND prosecdef
                AND NOT has_function_privilege('public', oid, 'EXECUTE')
                AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)
            """
        )
        let all = try await fixture.text(
            """
            SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
            WHERE pronamespace = 'upstream'::regnamespace AND prosecdef
            """
        )
        let expected = """
            drop_partition ensure_attempts ensure_partitions ensure_samples finish_retention_request keep_dead_messages \
            purge_attempts purge_audit purge_conflicts purge_dead_letters purge_dead_messages purge_erasures \
            purge_message_ids purge_quarantine purge_samples raise_retention record_audit request_maintenance \
            take_retention_request
            """
        #expect(names == expected)
        #expect(names == all)
    }
}
