#!/usr/bin/env python3
"""What breaks queues in a PostgreSQL: a session that holds a snapshot, so that nothing dead can be vacuumed, beside readers.

    make program
    Benchmarks/Store/pressure.py [--rate 800] [--seconds 120] [--roles split] [--handler "log: {}"]
        [--program FILE]

A private PostgreSQL, live messages at --rate: first two minutes or a quarter of --seconds without pressure, then --seconds with a
session that is idle in a transaction with a snapshot, and two readers who look every 5 seconds. --roles one: one process receives
and dispatches; split: two, so that each delivery takes a row. Prints, every tenth of the time, how many messages were handled a
second, how long they waited (arrival to attempt), and how large the tables of deliveries are. Exit code 1 where less than 0.95 of
the rate was handled, the p95 is over twice that without pressure, or deliveries are left at the end.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/Benchmarks/Chaos")
from system import Cluster, configuration, start_emulator, start_worker, wait_until  # noqa: E402

SIZES = """
SELECT sum(pg_total_relation_size(c.oid)), sum(pg_stat_get_dead_tuples(c.oid)) FROM pg_class AS c
WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^deliver'
"""
# Without statistics of a minute ago the planner would compare every attempt with every message.
WAITED = """
SET enable_nestloop = off;
SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY waited), percentile_disc(0.95) WITHIN GROUP (ORDER BY waited),
    percentile_disc(0.99) WITHIN GROUP (ORDER BY waited)
FROM (
    SELECT 1000 * extract(epoch FROM a.started_at - m.received_at) AS waited
    FROM upstream.attempts AS a JOIN upstream.messages AS m USING (message_key)
    WHERE a.settled_at >= '{0}' AND a.settled_at < '{1}' AND m.received_at BETWEEN timestamptz '{0}' - interval '1 minute' AND '{1}'
) AS handled
"""
# Those who look: what came in the last minute, and what waits.
READERS = [
    "SELECT category, count(*) FROM upstream.messages WHERE received_at > now() - interval '1 minute' GROUP BY category",
    "SELECT handler, count(*) FROM upstream.deliveries GROUP BY handler",
]


def session(cluster, text):
    """A session that goes on until its process ends."""
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", cluster.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process


class Watch:
    """What is handled, and how fast, from one look to the next."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.since = self.now()

    def now(self):
        return self.cluster.query("SELECT clock_timestamp()")[0]

    def look(self, name):
        """Messages handled, seconds, and the p95 of their waiting."""
        until = self.now()
        seconds = float(self.cluster.query(f"SELECT extract(epoch FROM timestamptz '{until}' - '{self.since}')")[0])
        count, *waited = self.cluster.query(WAITED.format(self.since, until))[0].split("|")
        size, dead = self.cluster.query(SIZES)[0].split("|")
        self.since = until
        p50, p95, p99 = (float(each or "nan") for each in waited)
        print(
            f"{name}: {int(count) / seconds:,.0f}/s, waited p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms, "
            f"deliveries {int(size) / 1e6:.1f} MB, {int(dead):,} dead rows", flush=True,
        )  # fmt: skip
        return int(count), seconds, p95


def measure(options, cluster):
    """Whether everything held."""
    watch = Watch(cluster)
    time.sleep(min(options.seconds / 4, 120))
    usual = watch.look("without pressure")[2]
    held = session(cluster, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM upstream.deliveries;")
    readers = [session(cluster, f"{query} \\watch 5") for query in READERS]
    looks = []
    try:
        for part in range(1, 11):
            time.sleep(options.seconds / 10)
            looks.append(watch.look(f"{part * options.seconds / 10:,.0f} s"))
        if any(each.poll() is not None for each in [held, *readers]):
            raise RuntimeError("a session of the pressure has ended")
    finally:
        for each in [held, *readers]:
            each.kill()
            each.wait()
    rate = sum(look[0] for look in looks) / sum(look[1] for look in looks)
    median = sorted(look[2] for look in looks)[len(looks) // 2]
    print(f"handled {rate / options.rate:.3f} of what was sent; median p95 {median / usual:.2f} of that without pressure", flush=True)
    return rate >= 0.95 * options.rate and median <= 2 * usual


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=800)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--roles", choices=["one", "split"], default="split")
    parser.add_argument("--handler", default="log: {}", help="its keys in the configuration")
    parser.add_argument("--program", default=f"{ROOT}/.build/release/upstream-worker")
    options = parser.parse_args()
    roles = ["receive,dispatch"] if options.roles == "one" else ["dispatch", "receive"]
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        emulator, port = start_emulator(options.program, folder, "--rate", options.rate)
        workers = []
        try:
            path = configuration(folder, 1, cluster, port, 4, 2, options.handler)
            subprocess.run([options.program, "migrate", "up", "--config", path], check=True, capture_output=True)
            log = open(f"{folder}/worker.log", "a")
            for each in roles:
                workers.append(start_worker(options.program, path, each, log))
            handled = "SELECT count(*) > 20 FROM upstream.attempt_batches"
            wait_until("messages to be handled", lambda: cluster.query(handled) == ["t"], 60)
            good = measure(options, cluster)
            emulator.terminate()
            emulator.wait(60)
            left = "SELECT count(*) FROM upstream.deliveries"
            wait_until("the last messages to be handled", lambda: cluster.query(left) == ["0"], 60)
        finally:
            emulator.kill()
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(60)
            print(open(f"{folder}/worker.log").read(), file=sys.stderr, end="")
            cluster.stop("immediate")
    sys.exit(not good)


if __name__ == "__main__":
    main()
