#!/usr/bin/env python3
"""What a ledger of many ids costs a new one, and whether parts would help: CPU and WAL of the insert of a batch's ids.

    scripts/install-test-tools && .build/test-tools/bin/pip install -r Benchmarks/Store/requirements.txt
    .build/test-tools/bin/python Benchmarks/Store/ledger.py [--rows 10000000] [--shared-buffers 1GB] [--huge-pages]

Four ledgers in one private cluster, filled in turns: `empty`; `one` with --rows ids, as upstream.message_ids is; `two`, an
empty part for what arrives now beside a closed one with these ids, which a new id is looked for in; `parts`, the same with the
closed ids in --parts tables. Where the closed parts are only read, an insert dirties no page of theirs.
"""
import argparse
import statistics
import uuid
import random

from store import FILL_LEDGER, Cluster, cpu, in_steps

COLUMNS = "message_key uuid NOT NULL, fingerprint uuid NOT NULL, received_at timestamptz NOT NULL"
INSERT = "INSERT INTO {} SELECT unnest(%b::uuid[]), unnest(%b::uuid[]), unnest(%b::timestamptz[])"
KNOWN = "SELECT message_key FROM {} WHERE message_key = ANY (%b::uuid[])"


def fill(connection, table, rows):
    connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
    in_steps(connection, FILL_LEDGER.format(table), rows)
    # As full as pages are that took keys in random order.
    connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (message_key) WITH (fillfactor = 70)")


def turn(connection, pid, table, closed, batches):
    """Inserts batches of ids, each after a look into the closed parts; gives CPU (µs) and WAL (bytes) of an id."""
    count = sum(len(keys) for keys in batches)
    now = connection.execute("SELECT now()").fetchone()[0]
    lsn = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    used = cpu(pid)
    for keys in batches:
        with connection.transaction():
            for part in closed:
                assert not connection.execute(KNOWN.format(part), [keys], binary=True).fetchall()
            connection.execute(INSERT.format(table), [keys, keys, [now] * len(keys)])
    used = cpu(pid) - used
    wal = connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", [lsn]).fetchone()[0]
    return used / count * 1e6, float(wal) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parts", type=int, default=8, help="closed ones, of the last ledger")
    parser.add_argument("--shared-buffers", default="1GB")
    parser.add_argument("--huge-pages", action="store_true", help="for shared_buffers; vm.nr_hugepages has to be set")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200, help="in one turn")
    parser.add_argument("--batch", type=int, default=240)
    options = parser.parse_args()
    cluster = Cluster(options.shared_buffers, options.huge_pages)
    try:
        connection = cluster.connect("postgres")
        connection.prepare_threshold = 0
        pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        connection.execute("CHECKPOINT")
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '512MB'")
        parts = [f"part{n}" for n in range(options.parts)]
        ledgers = {"empty": ("empty", []), "one": ("one", []), "two": ("newest", ["closed"]), "parts": ("newer", parts)}
        for table, rows in [("empty", 0), ("newest", 0), ("newer", 0), ("one", options.rows), ("closed", options.rows)]:
            fill(connection, table, rows)
        for part in parts:
            fill(connection, part, options.rows // options.parts)
        connection.execute("VACUUM ANALYZE")
        connection.execute("SET synchronous_commit = on")
        generator = random.Random(1)
        figures = {name: ([], []) for name in ledgers}
        for count in range(options.rounds + 1):
            for name in ledgers if count % 2 else reversed(ledgers):
                batches = [
                    sorted((uuid.UUID(int=generator.getrandbits(128)) for _ in range(options.batch)), key=lambda key: key.bytes)
                    for _ in range(options.batches)
                ]
                result = turn(connection, pid, *ledgers[name], batches)
                if count > 0:  # the first one fills caches
                    for figure, kept in zip(result, figures[name]):
                        kept.append(figure)
        first = statistics.median(figures["empty"][0])
        print(f"{'LEDGER':8} {'CPU, µs':>8} {'least':>6} {'most':>6} {'more':>6} {'WAL, B':>7}")
        for name, (used, wal) in figures.items():
            median = statistics.median(used)
            print(f"{name:8} {median:8.2f} {min(used):6.2f} {max(used):6.2f} {median - first:6.2f} {statistics.median(wal):7.0f}")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
