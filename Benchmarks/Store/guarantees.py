#!/usr/bin/env python3
"""What each guarantee costs PostgreSQL: today's function and schema with one of them taken away, run in turns.

    .build/test-tools/bin/python Benchmarks/Store/guarantees.py [--rounds 5]

Set up and options as for store.py. Shown are CPU of the backend, time and WAL for each new message, as ratios to the whole.
"""
import store

WITHOUT_PARTITIONS = """
    ALTER TABLE upstream.messages RENAME TO partitioned;
    CREATE TABLE upstream.messages (LIKE upstream.partitioned INCLUDING ALL);"""
# Stores every redelivery again, and detects no conflict.
BODIES = store.function("g_bodies", store.SCALAR_PARAMETERS, f"{store.BODY} {store.SCALAR_TARGETS}; stored := 0;")


def arrival(rows):
    return store.scalars(rows, order=lambda rows: rows)


WHOLE = store.VARIANTS["store_batch"][1:]
UNCHECKED = store.call("g_bodies", store.SCALARS), arrival
VARIANTS = {
    "whole": ("", *WHOLE),
    "without look-ups": (store.WITHOUT_LOOKUPS, *WHOLE),
    "without partitions": (WITHOUT_PARTITIONS, *WHOLE),
    "without ledger": (BODIES, *UNCHECKED),
    "without all three": (store.WITHOUT_LOOKUPS + WITHOUT_PARTITIONS + BODIES, *UNCHECKED),
}
store.VARIANTS.update(VARIANTS)
store.DEFAULTS = [*VARIANTS, "bare", "bare without key"]

if __name__ == "__main__":
    store.__doc__ = __doc__
    store.main()
