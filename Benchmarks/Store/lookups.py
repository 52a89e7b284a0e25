#!/usr/bin/env python3
"""What indexes for look-ups by category and device cost each insert, and what the look-ups take with them, run in turns.

    .build/test-tools/bin/python Benchmarks/Store/lookups.py [--rounds 5] [--rows 1000000]

Set up as for store.py. Each variant begins with a day of --rows messages: --devices devices in turn, 20 categories, and one
that only 100 messages have. Then batches are stored as a worker does, with CPU of the backend, time and WAL for each new
message; then, after a VACUUM, the pages are read that `messages list` (docs/queries.md) reads: the 50 latest of a category,
of the rare one, of a device. Shown are medians, of inserts with their ratio to the b-trees of the schema. What BRIN and GIN
put off for autovacuum is done at the end of each round, and counts.
"""
import argparse
import random
import statistics
import time

import store

BLOOM = "(category text_bloom_ops, device_key uuid_bloom_ops) WITH (pages_per_range = 64, autosummarize = on)"
INDEXES = {
    "b-tree": [
        "CREATE INDEX ON upstream.messages (category, received_at)",
        "CREATE INDEX ON upstream.messages (device_key, received_at)",
    ],
    "b-tree, category only": ["CREATE INDEX ON upstream.messages (category, received_at)"],
    "b-tree, device only": ["CREATE INDEX ON upstream.messages (device_key, received_at)"],
    "BRIN": [f"CREATE INDEX ON upstream.messages USING brin {BLOOM}"],
    "GIN": [
        "CREATE EXTENSION btree_gin",
        "CREATE INDEX ON upstream.messages USING gin (category, device_key)",
    ],
    "b-tree, hash by device": [
        "CREATE INDEX ON upstream.messages (category, received_at)",
        "CREATE INDEX ON upstream.messages USING hash (device_key)",
    ],
    "b-tree, GIN by device": [
        "CREATE EXTENSION btree_gin",
        "CREATE INDEX ON upstream.messages (category, received_at)",
        "CREATE INDEX ON upstream.messages USING gin (device_key)",
    ],
    "no index": [],
}
FILL = """
    INSERT INTO upstream.messages (
        message_key, received_at, sender_id, message_id, registration_token, device_key, category, data
    )
    SELECT
        gen_random_uuid(), now() - interval '2 hours' + n * interval '1 hour' / %(rows)s, '1234567890', 'fill-' || n,
        repeat('x', 150), md5((n %% %(devices)s)::text)::uuid,
        CASE WHEN n %% (%(rows)s / 100) = 7 THEN 'com.example.rare' ELSE 'com.example.app' || n %% 20 END,
        json_build_object('n', n, 'body', repeat('y', 170))
    FROM generate_series(1, %(rows)s) AS n"""
PAGE = "SELECT * FROM upstream.messages AS m WHERE {} ORDER BY m.received_at DESC, m.message_key DESC LIMIT 50"
LOOKUPS = {
    "category": (PAGE.format("m.category = %s"), lambda chance, devices: f"com.example.app{chance.randrange(20)}"),
    "rare": (PAGE.format("m.category = %s"), lambda chance, devices: "com.example.rare"),
    "device": (PAGE.format("m.device_key = md5(%s)::uuid"), lambda chance, devices: str(chance.randrange(devices))),
}

# Autovacuum's work for the rows of a round, in another process.
UPKEEP = """
    SELECT CASE a.amname
        WHEN 'gin' THEN gin_clean_pending_list(x.indexrelid) WHEN 'brin' THEN brin_summarize_new_values(x.indexrelid) END
    FROM pg_inherits AS i JOIN pg_index AS x ON x.indrelid = i.inhrelid
    JOIN pg_class AS c ON c.oid = x.indexrelid JOIN pg_am AS a ON a.oid = c.relam
    WHERE i.inhparent = 'upstream.messages'::regclass AND a.amname IN ('gin', 'brin')"""


def side(cluster, name, options):
    """The database of a variant, with its day of messages; the index is made when they are there."""
    store.VARIANTS[name] = (store.WITHOUT_LOOKUPS, *store.VARIANTS["store_batch"][1:])
    made = store.side(cluster, name, options)
    made["load"].categories = [f"com.example.app{number}" for number in range(20)]
    connection = made["connection"]
    connection.execute(FILL % {"rows": options.rows, "devices": options.devices})
    for statement in INDEXES[name]:
        connection.execute(statement)
    # Planned for each value, like a command's statements.
    connection.execute("SET plan_cache_mode = force_custom_plan")
    # BRIN is summarised and GIN's pending lists are merged, as by autovacuum on a quiet day.
    connection.execute("VACUUM ANALYZE upstream.messages")
    connection.execute("CHECKPOINT")
    made["lookups"] = {kind: [] for kind in LOOKUPS}
    return made


def run(side, name, options):
    """One turn of a variant, as store.run gives it, with the index's upkeep."""
    figures, connection = store.run(side, name, options), side["connection"]
    lsn = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    used, started = store.cpu(side["pid"]), time.monotonic()
    connection.execute(UPKEEP)
    upkeep = [(store.cpu(side["pid"]) - used) * 1e6, (time.monotonic() - started) * 1e6]
    upkeep.append(float(connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", [lsn]).fetchone()[0]))
    return [figure + more / (options.batches * options.batch) for figure, more in zip(figures, upkeep)]


def look_up(side, chance, repeats, devices, rows):
    most = {"category": 50, "rare": 50, "device": rows // devices}
    for kind, (sql, value) in LOOKUPS.items():
        times = []
        for _ in range(repeats):
            started = time.monotonic()
            found = side["connection"].execute(sql, [value(chance, devices)]).fetchall()
            times.append((time.monotonic() - started) * 1000)
            assert len(found) == min(50, most[kind]), f"{kind}: {len(found)} rows"
        side["lookups"][kind].append(statistics.median(times))


def turns(names, rounds):
    """The variants of every round, in one order and then the other; the first round fills caches."""
    for turn in range(rounds + 1):
        for name in names if turn % 2 else reversed(names):
            yield name, turn > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000, help="messages that a day begins with")
    parser.add_argument("--devices", type=int, default=10_000, help="that the messages come from")
    parser.add_argument("--batches", type=int, default=100, help="in one round of one variant")
    parser.add_argument("--batch", type=int, default=240, help="messages in a batch")
    parser.add_argument("--size", type=int, default=400, help="bytes of a message's JSON")
    parser.add_argument("--repeats", type=int, default=5, help="look-ups of a kind in one round of one variant")
    options = parser.parse_args()
    if options.rows < 10_000 or options.devices > options.rows:
        parser.error("--rows is 10,000 at least, and no less than --devices")
    names, chance, cluster = list(INDEXES), random.Random(2), store.Cluster()
    try:
        sides = {name: side(cluster, name, options) for name in names}
        for name, counts in turns(names, options.rounds):
            figures = run(sides[name], name, options)
            if counts:
                for key, figure in zip(("cpu", "time", "wal"), figures):
                    sides[name][key].append(figure)
        for name in names:
            sides[name]["connection"].execute("VACUUM ANALYZE upstream.messages")
        for name, counts in turns(names, options.rounds):
            look_up(sides[name], chance, options.repeats, options.devices, options.rows)
            if not counts:
                sides[name]["lookups"] = {kind: [] for kind in LOOKUPS}
        first = statistics.median(sides[names[0]]["cpu"])
        head = f"{'INDEXES':22} {'CPU, µs':>8} {'ratio':>6} {'TIME, µs':>9} {'WAL, B':>7}   50 LATEST, ms: "
        print(head + ", ".join(LOOKUPS))
        for name in names:
            used, elapsed, wal = (statistics.median(sides[name][key]) for key in ("cpu", "time", "wal"))
            pages = " ".join(f"{statistics.median(times):8.2f}" for times in sides[name]["lookups"].values())
            print(f"{name:22} {used:8.2f} {used / first:6.2f} {elapsed:9.2f} {wal:7.0f}   {pages}")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
