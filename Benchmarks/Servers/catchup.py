#!/usr/bin/env python3
"""Live messages beside catching up from an archive: the 99th percentile of their acks, with and without.

    Benchmarks/Servers/catchup.py [ARCHIVED] [RATE] [SERVER]   after `make release` and scripts/install-test-tools

A server that stores nothing offline archives so many messages while no worker is there (100,000). Then live ones come, so
many a second (50): to a worker that does not read the archive, and to one that does, until it has all of it. Compared are
medians of half minutes, as one run is many times as long as the other. Exit code 1 if a message is missing, or the second
percentile is over 1.5 times that of the minutes before and after.
"""

import sys
import time
from statistics import median

from servers import DOMAIN, PacedDevice, WORKER, run, wait_for

ADDRESS = f"worker@{DOMAIN}"
CHANGES = {
    "Prosody": [
        ('"smacks" }', '"smacks"; "mam" }\ndefault_archive_policy = true\nmax_archive_query_results = 100'),
        ('modules_disabled = { "s2s" }', 'modules_disabled = { "s2s"; "offline" }'),
        # Its own files are read whole for each page.
        (
            "storage_archive_item_limit = 40000",
            'storage_archive_item_limit = 1000000\nstorage = { archive = "sql" }\n'
            'sql = { driver = "SQLite3", database = "archive.sqlite" }',
        ),
    ],
    "ejabberd": [
        ("  mod_ping: {}\n", "  mod_ping: {}\n  mod_mam: {default: always}\n"),
        ("  mod_offline: {access_max_user_messages: max_user_offline_messages}\n", ""),
    ],
}
# Seconds of live traffic without an archive, and of those that are compared.
ALONE, PIECE = 90, 30


def measured(bench, device, database, catches_up, rate, prefix):
    """Sends live messages to a worker until it has caught up, or for a while; gives their ids and the seconds."""
    config = bench.configuration(database, bench.account(archive={"catch_up": "on" if catches_up else "off"}))
    log = f"{database}-{prefix}.log"
    worker = bench.spawn([WORKER, "run", "--config", config], log)
    wait_for("the stream is bound", lambda: "stream.bound" in bench.logged(log))
    # What is slow at the start is no part of it.
    device.send([f"{prefix}-first{n}" for n in range(5 * rate)], ADDRESS, rate)
    ids, begun = [], time.monotonic()
    while True:
        ids += (some := [f"{prefix}{n}" for n in range(len(ids), len(ids) + rate)])
        device.send(some, ADDRESS, rate)
        took = time.monotonic() - begun
        if '"archive.read"' in bench.logged(log) if catches_up else took >= ALONE:
            break
        if took > 1800:
            sys.exit("not caught up within half an hour")
    wait_for("every live message is acked", lambda: all(id in device.acked for id in ids))
    worker.terminate()
    worker.wait()
    bench.processes.remove(worker)
    return ids, took


def catch_up(bench, kind, archived, rate):
    bench.server(kind, *CHANGES[kind])
    device = PacedDevice(bench.ports[1], bench.folder / "cert.pem")
    worker, log, database = bench.worker(kind, bench.account(archive={"catch_up": "on"}))
    wait_for("the archive's end is noted", lambda: '"archive.read"' in bench.logged(log))
    bench.end(worker)
    # Its lease has no reader any more.
    bench.statement(database, "UPDATE upstream.archive_points SET leased_until = NULL")
    ids = [f"a{n}" for n in range(archived)]
    begun = time.monotonic()
    device.send(ids, ADDRESS, 5_000)
    # Nobody has this address: once it comes back, the server has taken all before it.
    device.send(["marker"], f"nobody@{DOMAIN}", 1)
    wait_for("the server has taken them", lambda: "marker" in device.returned, 1_800)
    del device.sent["marker"]
    print(f"{kind}: {archived} archived in {time.monotonic() - begun:.0f} s", flush=True)
    alone, _ = measured(bench, device, database, False, rate, "alone")
    beside, took = measured(bench, device, database, True, rate, "beside")
    after, _ = measured(bench, device, database, False, rate, "after")
    wait_for("all is acked", lambda: all(id in device.acked for id in ids))
    without = device.p99s(alone, PIECE * rate) + device.p99s(after, PIECE * rate)
    during = device.p99s(beside, PIECE * rate)
    first, second = median(without), median(during)
    stored, sent = bench.stored(database), len(device.sent)
    print(
        f"{kind}: caught up in {took:.0f} s beside {rate}/s; ack p99 {first:.1f} ms ({min(without):.1f} to {max(without):.1f}) "
        f"without, {second:.1f} ({min(during):.1f} to {max(during):.1f}) beside: {second / first:.2f} times; "
        f"{sent - stored} of {sent} missing"
    )
    return stored == sent and second <= 1.5 * first


def main():
    archived = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    kinds = sys.argv[3:] or ["Prosody"]
    sys.exit(0 if all([run(lambda bench: catch_up(bench, kind, archived, rate)) for kind in kinds]) else 1)


main()
