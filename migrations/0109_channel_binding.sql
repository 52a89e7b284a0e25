-- migrate:up
-- Channel binding: which senders have signed in bound to their TLS connection.

CREATE TABLE upstream.channel_bindings (
    sender_id text NOT NULL,
    domain text NOT NULL,
    binding text NOT NULL,
    pinned_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT channel_bindings_pkey PRIMARY KEY (sender_id, domain)
);
COMMENT ON TABLE upstream.channel_bindings IS 'The senders that have signed in with channel binding: their workers sign in by nothing less, until check --forget-pin deletes the row.';
COMMENT ON COLUMN upstream.channel_bindings.sender_id IS 'The configured sender.';
COMMENT ON COLUMN upstream.channel_bindings.domain IS 'The XMPP domain that it signed in to.';
COMMENT ON COLUMN upstream.channel_bindings.binding IS 'The first type of binding: tls-exporter, tls-server-end-point or tls-unique.';
COMMENT ON COLUMN upstream.channel_bindings.pinned_at IS 'When, by the database''s clock.';

-- What this brings is granted to every role that does the like already; reading is granted for tables to come, too.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT
            wanted.rights, CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM (VALUES
            -- Who receives.
            ('message_ids', 'INSERT', 'SELECT, INSERT, DELETE ON upstream.channel_bindings')
        ) AS wanted (object, privilege, rights)
        JOIN pg_catalog.pg_class AS c ON c.relnamespace = 'upstream'::regnamespace AND c.relname = wanted.object
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE held.privilege_type = wanted.privilege AND held.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s TO %s', known.rights, known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP TABLE upstream.channel_bindings;
