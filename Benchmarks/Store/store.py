#!/usr/bin/env python3
"""What storing a batch costs PostgreSQL, in variants, run in turns: CPU of the backend and WAL for each message.

    scripts/install-test-tools
    .build/test-tools/bin/pip install -r Benchmarks/Store/requirements.txt
    .build/test-tools/bin/python Benchmarks/Store/store.py [--rounds 5] [--only NAME,NAME] [--rows 10000000]

A private cluster in a temporary folder (fsync on), a database with the schema for each variant. Every round runs every
variant once over batches of new messages, so that a slow minute hits all of them; shown are medians, and ratios to the
first variant. Compare the ratios. --list names the variants: upstream.store_batch, what a bare worker inserts
(Benchmarks/Baseline), and `filled`, upstream.store_batch on a day that has --rows messages.
"""
import argparse
import glob
import hashlib
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone

import psycopg

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Drops the secondary indexes for look-ups by id, category and device; the primary key stays.
WITHOUT_LOOKUPS = """
    DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN SELECT indexrelid FROM pg_index WHERE indrelid = 'upstream.messages'::regclass AND NOT indisprimary LOOP
            EXECUTE 'DROP INDEX ' || name;
        END LOOP;
    END $$;"""


class Cluster:
    """A PostgreSQL server of our own, as the user postgres where we are root."""

    def __init__(self, shared_buffers="512MB", huge_pages=False):
        self.folder = tempfile.mkdtemp(prefix="upstream-store-", dir="/var/tmp")
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.prefix = []
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        self.run("initdb", "-D", f"{self.folder}/data", "-U", "upstream", "-A", "trust", "-E", "UTF8", "--locale=C")
        options = f"-k {self.folder} -h '' -c shared_buffers={shared_buffers} -c max_wal_size=40GB -c checkpoint_timeout=30min"
        if huge_pages:
            options += " -c huge_pages=on"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def run(self, program, *arguments):
        subprocess.run(
            [*self.prefix, f"{self.bin}/{program}", *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self.folder
        )

    def connect(self, database):
        return psycopg.connect(f"host={self.folder} user=upstream dbname={database}", autocommit=True)

    def stop(self):
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def migrations():
    for path in sorted(glob.glob(f"{ROOT}/migrations/*.sql")):
        with open(path) as file:
            yield re.split(r"^-- migrate:down.*$", file.read(), flags=re.M)[0]


class Load:
    """Batches of new messages, in order of arrival."""

    def __init__(self, rows, size, devices=1000):
        self.rows, self.size, self.devices, self.count = rows, size, devices, 0
        self.random = random.Random(1)
        self.categories = ["com.example.app"]
        self.time = datetime.now(timezone.utc) - timedelta(minutes=30)

    def body(self):
        return '{"n":"%d","body":"%s"}' % (self.count, "y" * (self.size - 230))

    def batch(self):
        rows = []
        for _ in range(self.rows):
            self.count += 1
            self.time += timedelta(microseconds=20)
            device = self.random.randrange(self.devices)
            token = f"FAKE-{device:06d}:" + "x" * 140
            # In random order, like the ids of many devices: a b-tree takes ascending ids at its right edge.
            identifier = f"bench-{self.count * 618033988749 % 10**12:012}"
            data = self.body()
            rows.append(
                dict(
                    key=uuid.UUID(bytes=hashlib.sha256(f"1\0{identifier}".encode()).digest()[:16]),
                    fingerprint=uuid.UUID(bytes=hashlib.sha256(data.encode()).digest()[:16]),
                    time=self.time, sender="1234567890", id=identifier, token=token,
                    device=uuid.UUID(bytes=hashlib.sha256(token.encode()).digest()[:16]),
                    category=self.categories[self.count % len(self.categories)], data=data, raw=None, extra='{"time_to_live":86400}', type=None,
                    stanza_from="devices@gcm.googleapis.com",
                )
            )
        return rows


COLUMNS = "key fingerprint time sender id token device category data raw extra type stanza_from".split()
TYPES = dict(
    key="uuid", fingerprint="uuid", time="timestamptz", sender="text", id="text", token="text", device="uuid",
    category="text", data="text", raw="text", extra="text", type="text", stanza_from="text",
)


def arrays(rows, columns=COLUMNS):
    return [[row[column] for row in rows] for column in columns]


def by_key(rows):
    return sorted(rows, key=lambda row: row["key"].bytes)


BODY = (
    "INSERT INTO upstream.messages (message_key, received_at, sender_id, message_id, registration_token, device_key, "
    "category, data, data_raw, extra, message_type, stanza_from) "
)


def function(name, parameters, body, declare=""):
    return f"""
        CREATE FUNCTION upstream.{name}({parameters}, OUT stored bigint)
        LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
        {declare}
        BEGIN
            PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
            {body}
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            stored := -1;
        END $$;"""


def call(name, columns):
    return f"SELECT upstream.{name}(" + ", ".join(f"%b::{TYPES[c]}{s}" for c, s in columns) + ")"


TARGETS = "SELECT unnest(keys), unnest(times), unnest(senders), unnest(ids), unnest(tokens), unnest(devices), " \
    "unnest(categorys), unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), unnest(stanza_froms)"

# Columns with one value or null for the whole batch: an empty array gives nulls, a scalar the value.
SCALARS = [(c, "" if c in ("sender", "stanza_from") else "[]") for c in COLUMNS]
SCALAR_PARAMETERS = ", ".join(f"{c}s {TYPES[c]}{s}" for c, s in SCALARS)
SCALAR_TARGETS = TARGETS.replace("unnest(senders)", "senders").replace("unnest(stanza_froms)", "stanza_froms")


def scalars(rows, order=by_key):
    rows = order(rows)
    result = []
    for column, suffix in SCALARS:
        values = [row[column] for row in rows]
        if not suffix:
            result.append(values[0])
        else:
            result.append([] if all(value is None for value in values) else values)
    return result


def store_batch(rows):
    """What the worker sends: the ledger by key, bodies by arrival, null columns empty, one sender for all."""
    bodies = dict(zip(COLUMNS, arrays(rows)))
    for column in COLUMNS:
        if column in ("sender", "stanza_from") or all(value is None for value in bodies[column]):
            bodies[column] = []
    return [
        *arrays(by_key(rows), ["key", "fingerprint", "time"]),
        *(bodies[c] for c in COLUMNS if c != "fingerprint"),
        rows[0]["sender"], rows[0]["stanza_from"], "", 0, 0, [], [], [], 0, [rows[0]["sender"]], ["sender"],
        False, False, False,
    ]


# With no handler here, so no registration, and no ids that are likely to be known.
STORE_BATCH = (
    "SELECT * FROM upstream.store_batch(%b::uuid[], %b::uuid[], %b::timestamptz[], "
    + ", ".join(f"%b::{TYPES[c]}[]" for c in COLUMNS if c != "fingerprint")
    + ", %b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::text[], %b::text[], %b::text[], %b::bigint, "
    "%b::text[], %b::text[], %b::bool, %b::bool, %b::bool)"
)
VARIANTS = {"store_batch": ("", STORE_BATCH, store_batch)}
VARIANTS["filled"] = VARIANTS["store_batch"]

# Idempotent on message_id, and nothing else: Benchmarks/Baseline stores the same way.
BARE = "INSERT INTO baseline (message_id, token, category, data) SELECT id, token, category, data::json " \
    "FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS i (id, token, category, data)"
VARIANTS["bare"] = (
    "CREATE TABLE baseline (message_id text PRIMARY KEY, token text, category text, data json, "
    "received_at timestamptz DEFAULT now());",
    BARE + " ON CONFLICT DO NOTHING",
    lambda rows: arrays(rows, ["id", "token", "category", "data"]),
)
# Stores every redelivery again.
VARIANTS["bare without key"] = (VARIANTS["bare"][0].replace(" PRIMARY KEY", ""), BARE, VARIANTS["bare"][2])

DEFAULTS = ["store_batch", "bare", "bare without key"]

# A day's messages, in steps: keys in random order, like digests; 1,000 devices in turn.
FILL = """
    WITH made AS MATERIALIZED (
        SELECT n, gen_random_uuid() AS key, now() - interval '2 hours' + n * interval '20 microseconds' AS at
        FROM generate_series(%s, %s) AS n
    ), ledger AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at) SELECT key, key, at FROM made
    )
    INSERT INTO upstream.messages (
        message_key, received_at, sender_id, message_id, registration_token, device_key, category, data
    )
    SELECT key, at, '1234567890', 'fill-' || n, 'FAKE', md5((n %% 1000)::text)::uuid, 'com.example.app', '{}' FROM made"""
FILL_LEDGER = """
    INSERT INTO {} (message_key, fingerprint, received_at)
    SELECT gen_random_uuid(), gen_random_uuid(), now() - interval '2 hours' + n * interval '20 microseconds'
    FROM generate_series(%s::int, %s::int) AS n"""


def in_steps(connection, statement, rows):
    """Runs a statement for the numbers up to so many, 250,000 at a time."""
    step = 250_000
    for start in range(1, rows + 1, step):
        connection.execute(statement, [start, min(start + step - 1, rows)])


def fill(connection, rows, ledger_only):
    # Before the fill, not after it: the first change of a page after a checkpoint logs the whole page, and a ledger
    # that takes thousands of messages a second has soon changed all of its pages.
    connection.execute("CHECKPOINT")
    connection.execute("SET synchronous_commit = off")
    in_steps(connection, FILL_LEDGER.format("upstream.message_ids") if ledger_only else FILL, rows)
    connection.execute("VACUUM ANALYZE upstream.message_ids")
    connection.execute("VACUUM ANALYZE upstream.messages")
    connection.execute("RESET synchronous_commit")


def cpu(pid):
    """Seconds on a processor, by the scheduler's own account: /proc/PID/stat counts ticks of 10 ms."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def side(cluster, name, options):
    """The database of a variant, ready for batches."""
    database = "v_" + hashlib.sha1(name.encode()).hexdigest()[:8]
    cluster.connect("postgres").execute(f"CREATE DATABASE {database}")
    connection = cluster.connect(database)
    connection.execute("CREATE SCHEMA upstream")
    for text in migrations():
        connection.execute(text)
    connection.execute("SELECT upstream.ensure_partitions(current_date - 1, current_date + 1)")
    connection.execute(VARIANTS[name][0] or "SELECT")
    if name == "filled":
        fill(connection, options.rows, options.ledger_only)
    connection.prepare_threshold = 0
    pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    return dict(connection=connection, pid=pid, load=Load(options.batch, options.size, options.devices), cpu=[], wal=[], time=[])


def run(side, name, options):
    """One turn of a variant; gives CPU and time (µs) and WAL (bytes) of one message."""
    _, sql, build = VARIANTS[name]
    connection, count = side["connection"], options.batches * options.batch
    batches = [build(side["load"].batch()) for _ in range(options.batches)]
    lsn = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    used, started = cpu(side["pid"]), time.monotonic()
    for batch in batches:
        connection.execute(sql, batch)
    used, elapsed = cpu(side["pid"]) - used, time.monotonic() - started
    wal = connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", [lsn]).fetchone()[0]
    return used / count * 1e6, elapsed / count * 1e6, float(wal) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200, help="in one round of one variant")
    parser.add_argument("--batch", type=int, default=240, help="messages in a batch")
    parser.add_argument("--size", type=int, default=400, help="bytes of a message's JSON")
    parser.add_argument("--devices", type=int, default=1000, help="that the messages come from")
    parser.add_argument("--rows", type=int, help="messages that `filled` begins with, in one day; adds the variant")
    parser.add_argument("--ledger-only", action="store_true", help="--rows are ids without messages")
    parser.add_argument("--only", help="variants, separated by commas; the others are compared with the first")
    parser.add_argument("--list", action="store_true", help="name the variants")
    options = parser.parse_args()
    if options.list:
        print(*VARIANTS, sep="\n")
        return
    names = options.only.split(",") if options.only else DEFAULTS
    for name in names:
        if name not in VARIANTS:
            parser.error(f"no variant {name!r}; --list names them")
    if options.rows:
        names = [*(name for name in names if name != "filled"), "filled"]
    elif "filled" in names:
        parser.error("filled needs --rows")
    cluster = Cluster()
    try:
        sides = {name: side(cluster, name, options) for name in names}
        for turn in range(options.rounds + 1):
            for name in names if turn % 2 else reversed(names):
                figures = run(sides[name], name, options)
                if turn > 0:  # the first one fills caches
                    for key, figure in zip(("cpu", "time", "wal"), figures):
                        sides[name][key].append(figure)
        first = {key: statistics.median(sides[names[0]][key]) for key in ("cpu", "time")}
        print(f"{'VARIANT':28} {'CPU, µs':>8} {'ratio':>6} {'TIME, µs':>9} {'ratio':>6} {'WAL, B':>7}")
        for name in names:
            used, elapsed, wal = (statistics.median(sides[name][key]) for key in ("cpu", "time", "wal"))
            where = "baseline" if name.startswith("bare") else "upstream.messages WHERE message_id LIKE 'bench-%'"
            rows = sides[name]["connection"].execute(f"SELECT count(*) FROM {where}").fetchone()[0]
            assert rows == sides[name]["load"].count, f"{name}: {rows} rows of {sides[name]['load'].count}"
            print(
                f"{name:28} {used:8.2f} {used / first['cpu']:6.2f} {elapsed:9.2f} {elapsed / first['time']:6.2f} {wal:7.0f}"
            )
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
