-- A handler of kind `sql`: exactly once, since the function runs in the transaction that completes the delivery.
--
--     handlers:
--       - name: orders
--         categories: ["com.example.orders"]
--         sql: {function: app.take_order}
CREATE SCHEMA IF NOT EXISTS app;

CREATE TABLE IF NOT EXISTS app.orders (
    message_key uuid PRIMARY KEY,
    item text NOT NULL,
    quantity integer NOT NULL
);

-- Runs with its owner's rights, so that the worker's role needs none on app's tables.
CREATE OR REPLACE FUNCTION app.take_order(message upstream.messages) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF message.data->>'item' IS NULL THEN
        RAISE EXCEPTION 'reject: an order needs an item';
    END IF;
    INSERT INTO app.orders (message_key, item, quantity)
    VALUES (message.message_key, message.data->>'item', coalesce((message.data->>'quantity')::integer, 1));
END $$;

REVOKE ALL ON FUNCTION app.take_order(upstream.messages) FROM public;
GRANT USAGE ON SCHEMA app TO upstream_worker;
GRANT EXECUTE ON FUNCTION app.take_order(upstream.messages) TO upstream_worker;
