#!/usr/bin/env python3
"""What the size of a body costs PostgreSQL, compressed by its own method (pglz) and with lz4, run in turns.

    .build/test-tools/bin/python Benchmarks/Store/bodies.py [--rounds 5] [--sizes 200,2000,16000]

Set up as for store.py. Bodies are JSON as devices send it: names that come again, values that don't; --random makes them of
random letters, which nothing compresses. Shown for each size are the backend's CPU, time and WAL for each new message, the
ratios of lz4 to pglz, and the bytes that a stored body takes.
"""
import argparse
import statistics

import store

METHODS = ("pglz", "lz4")
COLUMNS = ("data", "data_raw", "extra")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Bodies(store.Load):
    """Messages whose JSON has a size in bytes, within one reading of it."""

    def __init__(self, rows, size, is_random):
        super().__init__(rows, size)
        self.is_random = is_random
        self.readings = [self.reading() for _ in range(2000)]

    def reading(self):
        return '{"sensor":"%s-%03d","value":%.3f,"unit":"%s","at":%d,"ok":%s}' % (
            self.random.choice(("temperature", "pressure", "humidity", "voltage")), self.random.randrange(1000),
            self.random.uniform(-40, 1100), self.random.choice(("C", "hPa", "%", "mV")),
            1_763_800_000_000 + self.random.randrange(86_400_000), self.random.choice(("true", "false")),
        )

    def body(self):
        start = '{"n":"%d",' % self.count
        if self.is_random:
            return start + '"body":"%s"}' % "".join(self.random.choices(LETTERS, k=max(0, self.size - len(start) - 11)))
        parts, length = [], len(start) + 14
        while length < self.size or not parts:
            parts.append(self.random.choice(self.readings))
            length += len(parts[-1]) + 1
        return start + '"readings":[' + ",".join(parts) + "]}"


def side(cluster, method, size, options):
    """The database of a method and size; messages go to the day of now."""
    name = f"{method} {size}"
    store.VARIANTS[name] = store.VARIANTS["store_batch"]
    batch = max(10, min(options.batch, options.bytes // size))
    made = store.side(cluster, name, argparse.Namespace(batch=batch, size=size, devices=1000))
    for (table,) in made["connection"].execute(
        "SELECT 'upstream.messages'::regclass::text UNION ALL SELECT inhrelid::regclass::text FROM pg_inherits "
        "WHERE inhparent = 'upstream.messages'::regclass"
    ).fetchall():
        changes = ", ".join(f"ALTER COLUMN {column} SET COMPRESSION {method}" for column in COLUMNS)
        made["connection"].execute(f"ALTER TABLE {table} {changes}")
    made["load"] = Bodies(batch, size, options.random)
    made["options"] = argparse.Namespace(batch=batch, batches=max(2, options.messages // batch))
    return name, made


def stored(side, method):
    """The bytes of a stored body, and a check that those which are compressed are so by this method."""
    size, others = side["connection"].execute(
        "SELECT avg(pg_column_size(data)), count(*) FILTER (WHERE pg_column_compression(data) <> %s) FROM upstream.messages",
        [method],
    ).fetchone()
    assert others == 0, f"{others} bodies are not compressed with {method}"
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=4800, help="in one round of one variant")
    parser.add_argument("--batch", type=int, default=240, help="messages in a batch")
    parser.add_argument("--bytes", type=int, default=500_000, help="of bodies in a batch at most, as of a worker's")
    parser.add_argument("--sizes", default="200,400,1000,2000,4000,8000,16000", help="bytes of a body")
    parser.add_argument("--random", action="store_true", help="bodies that nothing compresses")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    cluster = store.Cluster()
    try:
        sides = {(size, method): side(cluster, method, size, options) for size in sizes for method in METHODS}
        for turn in range(options.rounds + 1):
            for key in sides if turn % 2 else reversed(sides):
                name, made = sides[key]
                figures = store.run(made, name, made["options"])
                if turn > 0:  # the first one fills caches
                    for column, figure in zip(("cpu", "time", "wal"), figures):
                        made[column].append(figure)
        head = f"{'BODY, B':>8} {'METHOD':6} {'CPU, µs':>8} {'ratio':>6} {'TIME, µs':>9} {'ratio':>6}"
        print(f"{head} {'WAL, B':>7} {'STORED, B':>9}")
        for size in sizes:
            first = {key: statistics.median(sides[size, METHODS[0]][1][key]) for key in ("cpu", "time")}
            for method in METHODS:
                made = sides[size, method][1]
                used, elapsed, wal = (statistics.median(made[key]) for key in ("cpu", "time", "wal"))
                print(
                    f"{size:8} {method:6} {used:8.2f} {used / first['cpu']:6.2f} {elapsed:9.2f} "
                    f"{elapsed / first['time']:6.2f} {wal:7.0f} {stored(made, method):9.0f}"
                )
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
