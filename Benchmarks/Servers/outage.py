#!/usr/bin/env python3
"""What is lost in an outage of the database: ejabberd and Prosody with their default queues.

    Benchmarks/Servers/outage.py [SECONDS] [RATE] [SERVER]     after `make release` and scripts/install-test-tools

Servers are Prosody, ejabberd, whose offline store is in SQLite, and Mnesia: ejabberd with its store there.

PostgreSQL is killed, and started again after so many seconds of traffic (60 at 200 a second). The worker has its defaults.
Exit code 1 if a message is lost, or returned to its sender.
"""

import contextlib
import json
import pathlib
import signal
import sqlite3
import sys
import time

from servers import DOMAIN, PacedDevice, run, wait_for

# How long the server may take to hand all over, in seconds.
LIMIT = 900
# The tables of ejabberd in SQLite, of its package.
SCHEMA = pathlib.Path("/usr/share/ejabberd/sql/lite.sql")


def outage(bench, kind, seconds, rate):
    # The server's own default, where docs/servers.md has a longer one.
    changes = [("smacks_max_queue_size = 50000", "") if kind == "Prosody" else (", max_ack_queue: 50000", "")]
    if kind == "ejabberd":
        data = bench.folder / kind
        data.mkdir()
        with contextlib.closing(sqlite3.connect(data / "ejabberd.sqlite")) as tables:
            tables.executescript(SCHEMA.read_text())
        changes += [
            ("auth_method: internal", f'auth_method: internal\nsql_type: sqlite\nsql_database: "{data}/ejabberd.sqlite"'),
            ("mod_offline: {", "mod_offline: {db_type: sql, "),
        ]
    bench.server("Prosody" if kind == "Prosody" else "ejabberd", *changes)
    worker, log, database = bench.worker(kind, bench.account())
    wait_for("the stream is bound", lambda: "stream.bound" in bench.logged(log))
    device = PacedDevice(bench.ports[1], bench.folder / "cert.pem")
    address = f"worker@{DOMAIN}"
    device.send([f"before{n}" for n in range(rate)], address, rate)
    bench.postgres.send_signal(signal.SIGQUIT)
    bench.postgres.wait()
    bench.processes.remove(bench.postgres)
    device.send([f"m{n}" for n in range(seconds * rate)], address, rate)
    bench.start_database()
    begun = time.monotonic()
    known = lambda: len(device.acked.keys() | device.returned)
    while known() < len(device.sent) and time.monotonic() - begun < LIMIT:
        time.sleep(0.1)
    last = max(device.acked.values()) - begun
    # A store in Mnesia is read slowly: what it holds still is not lost.
    left = 0
    if kind != "Prosody":
        left = json.loads(bench.ask("get_offline_count", {"user": "worker", "host": DOMAIN}))["value"]
    events = bench.logged(log)
    names = ["stream.withdrawn", "offline.reading", "offline.read", "stream.bound", "offline.failed"]
    told = ", ".join(f"{name} {events.count(chr(34) + name + chr(34))}" for name in names)
    sent, stored = len(device.sent), bench.stored(database)
    lost = sent - stored - left
    print(
        f"{kind}: {sent} sent at {rate}/s, {seconds} s without a database: {stored} stored, {len(device.acked)} acked, "
        f"{left} still with the server, {len(device.returned)} returned, {lost} lost; the last ack {last:.0f} s after ({told})"
    )
    return lost <= 0 and not device.returned and len(device.acked) == stored


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    kinds = sys.argv[3:] or ["ejabberd", "Prosody"]
    sys.exit(0 if all([run(lambda bench: outage(bench, kind, seconds, rate)) for kind in kinds]) else 1)


main()
