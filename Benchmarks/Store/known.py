#!/usr/bin/env python3
"""What known ids cost the batch they are in, by both ways of upstream.store_batch to insert: plainly first, and asking at once.

    .build/test-tools/bin/python Benchmarks/Store/known.py [--batch 240] [--rounds 5]

Set up and options as for store.py. Each round stores batches in which none, one, a tenth or half of the messages have been stored
before, and asks upstream.known_messages where there are any, as a worker does. Shown are CPU, time and WAL for each batch, as ratios
to a batch that is new and inserted plainly.
"""
import argparse
import statistics
import time

import store

KNOWN = "SELECT * FROM upstream.known_messages(%b::uuid[])"


def batches(side, options, share):
    """Batches of which so many messages are known."""
    rows = [side["load"].batch() for _ in range(options.batches)]
    count = 1 if share == "one" else int(options.batch * float(share))
    for batch in rows:
        if count:
            batch[-count:] = side["load"].random.sample(side["stored"], count)
    return rows, count


def run(side, mixed, share, options):
    """One turn; gives CPU and time (µs) and WAL (bytes) of a batch."""
    connection = side["connection"]
    rows, count = batches(side, options, share)
    _, sql, build = store.VARIANTS["store_batch"]
    ready = []
    for batch in rows:
        # Known ids once each, as the worker folds copies.
        batch = list({row["key"]: row for row in batch}.values())
        parameters = build(batch)
        parameters[-2] = mixed
        ready.append((parameters, [row["key"] for row in batch]))
    lsn = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    used, started = store.cpu(side["pid"]), time.monotonic()
    for parameters, keys in ready:
        stored = connection.execute(sql, parameters).fetchone()[0]
        if stored < len(keys):
            connection.execute(KNOWN, [keys])
    used, elapsed = store.cpu(side["pid"]) - used, time.monotonic() - started
    wal = connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", [lsn]).fetchone()[0]
    if not count:
        side["stored"] += [row for batch in rows for row in batch]
    return used / len(rows) * 1e6, elapsed / len(rows) * 1e6, float(wal) / len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=100, help="in one turn")
    parser.add_argument("--batch", type=int, default=240, help="messages in a batch")
    parser.add_argument("--size", type=int, default=400, help="bytes of a message's JSON")
    parser.add_argument("--devices", type=int, default=1000, help="that the messages come from")
    options = parser.parse_args()
    cluster = store.Cluster()
    try:
        side = store.side(cluster, "store_batch", options)
        side["stored"] = []
        turns = [(share, mixed) for share in ("0", "one", "0.1", "0.5") for mixed in (False, True)]
        figures = {turn: [] for turn in turns}
        for number in range(options.rounds + 1):
            for turn in turns if number % 2 == 0 else [*turns[:1], *reversed(turns[1:])]:
                result = run(side, turn[1], turn[0], options)
                if number > 0:  # the first one fills caches
                    figures[turn].append(result)
        first = [statistics.median(column) for column in zip(*figures[turns[0]])]
        print(f"{'KNOWN':8} {'INSERT':12} {'CPU, µs':>9} {'ratio':>6} {'TIME, µs':>9} {'ratio':>6} {'WAL, B':>9} {'ratio':>6}")
        for share, mixed in turns:
            medians = [statistics.median(column) for column in zip(*figures[share, mixed])]
            columns = " ".join(
                f"{value:9.0f} {value / base:6.2f}" for value, base in zip(medians, first)
            )
            print(f"{share:8} {'asking' if mixed else 'plain':12} {columns}")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
