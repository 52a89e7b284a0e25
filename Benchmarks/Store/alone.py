#!/usr/bin/env python3
"""What a message that comes alone costs PostgreSQL, by upstream.store_batch and by upstream.store_one, message by message in turns.

    .build/test-tools/bin/python Benchmarks/Store/alone.py [--messages 1000] [--pause 8]

Set up as for store.py. Nothing happens for --pause milliseconds before each message, as where 100 a second come: most of the
cost is then that the processor's caches hold nothing of it. Shown are medians of the backend's processor time for a message
and of the time until its commit is answered, beside a bare worker's insert (Benchmarks/Baseline), and ratios to store_batch.
"""
import argparse
import statistics
import time

import store

NAMES = ["store_batch", "store_one", "bare"]
# The parameters of store_one. The load's keys are the digests of sender and id.
TYPES = {
    name: store.TYPES.get(name, "text")
    for name in "key fingerprint time sender scope id token device category data raw extra type stanza_from".split()
}
store.VARIANTS["store_one"] = (
    "INSERT INTO upstream.senders (sender_id, id_scope) VALUES ('1234567890', 'sender')",
    f"SELECT upstream.store_one({', '.join(f'%b::{kind}' for kind in TYPES.values())})",
    lambda rows: [{**rows[0], "scope": "sender"}[name] for name in TYPES],
)


def store_next(side, name, pause):
    """Stores one message; gives the processor time and the time it took, in microseconds."""
    _, sql, build = store.VARIANTS[name]
    parameters = build(side["load"].batch())
    time.sleep(pause / 1000)
    used, started = store.cpu(side["pid"]), time.perf_counter()
    side["connection"].execute(sql, parameters)
    elapsed = time.perf_counter() - started
    # The backend's work after its answer belongs to the message, too.
    time.sleep(0.0005)
    return (store.cpu(side["pid"]) - used) * 1e6, elapsed * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1000, help="of each variant")
    parser.add_argument("--pause", type=float, default=8, help="milliseconds before each message")
    parser.add_argument("--size", type=int, default=400, help="bytes of a message's JSON")
    options = parser.parse_args()
    options.batch, options.devices = 1, 1000
    cluster = store.Cluster()
    try:
        sides = {name: store.side(cluster, name, options) for name in NAMES}
        for turn in range(options.messages):
            for name in NAMES if turn % 2 else reversed(NAMES):
                figures = store_next(sides[name], name, options.pause)
                # The first ones fill caches.
                for key, figure in zip(("cpu", "time"), figures if turn >= 20 else ()):
                    sides[name][key].append(figure)
        stored = sides["store_one"]["connection"].execute("SELECT count(*) FROM upstream.messages").fetchone()[0]
        assert stored == options.messages, stored
        print(f"{'A MESSAGE ALONE':18} {'CPU, µs':>8} {'ratio':>6} {'TIME, µs':>9} {'ratio':>6}")
        medians = {name: [statistics.median(sides[name][key]) for key in ("cpu", "time")] for name in NAMES}
        for name, (used, elapsed) in medians.items():
            first = medians[NAMES[0]]
            print(f"{name:18} {used:8.0f} {used / first[0]:6.2f} {elapsed:9.0f} {elapsed / first[1]:6.2f}")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
