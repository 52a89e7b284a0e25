#!/usr/bin/env python3
"""What waking handlers elsewhere costs those who store: receiving and dispatching in one process, and in two.

    make program
    Benchmarks/Store/waking.py [--messages 60000] [--rounds 3] [--delay 20] [--connections 16] [--writers 8] [--program FILE]

A private PostgreSQL whose synchronous standby confirms after --delay milliseconds (remote_apply); one process and two in turns,
with the sessions that waited for another's commit (the lock of NOTIFY), on average. Then lone messages, with the roles split: the
time from arrival to the handler's call. With fewer connections and writers the standby is the limit, and not the processors.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/Benchmarks/Chaos")
from system import Cluster, configuration, start_emulator, start_worker, wait_until  # noqa: E402

SETUP = """
CREATE SCHEMA app;
CREATE TABLE app.taken (took double precision);
CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql
    AS 'INSERT INTO app.taken VALUES (extract(epoch FROM clock_timestamp() - message.received_at) * 1000)';
"""


class Standby:
    """A synchronous standby of a cluster, on this machine."""

    def __init__(self, primary, delay):
        self.primary, self.data = primary, f"{primary.socket}/standby"
        primary.call("pg_basebackup", "-D", self.data, "-U", "upstream", "-h", primary.socket, "-R", "-c", "fast")
        with open(f"{self.data}/postgresql.auto.conf", "a") as file:
            file.write(f"port = 5433\nrecovery_min_apply_delay = {delay}\nmax_connections = 200\n")
        primary.call("pg_ctl", "-D", self.data, "-w", "-l", f"{primary.socket}/standby.log", "start")
        for setting in ("synchronous_standby_names = '*'", "synchronous_commit = 'remote_apply'"):
            primary.query(f"ALTER SYSTEM SET {setting}")
        primary.query("SELECT pg_reload_conf()")

    def stop(self):
        self.primary.query("ALTER SYSTEM RESET synchronous_standby_names")
        self.primary.query("SELECT pg_reload_conf()")
        self.primary.call("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)


class Waits:
    """How many sessions wait for the lock that NOTIFY holds until its transaction is over, looked at while it is entered."""

    SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'object'"

    def __init__(self, cluster):
        self.cluster, self.counts, self.over = cluster, [], threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.5):
            self.counts.append(int(self.cluster.query(self.SESSIONS)[0]))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def run(options, folder, cluster, roles, count, rate, handler, connections=16, writers=8, handled=lambda: None):
    """One measurement: how long the acks took in all, with workers of these roles."""
    pace = ["--rate", rate] if rate else []
    emulator, port = start_emulator(options.program, folder, "--count", count, *pace)
    path = configuration(folder, 1, cluster, port, connections, writers, handler)
    log = open(f"{folder}/worker.log", "a")
    workers = []
    try:
        # Who handles comes first: its subscription has to be there.
        for each in roles:
            workers.append(start_worker(options.program, path, each, log))
            if "dispatch" in each:
                subscribed = "SELECT handler FROM upstream.handler_workers"
                wait_until("the subscription", lambda: len(cluster.query(subscribed)) > 0, 60)
        emulator.communicate(timeout=600)
        handled()
    finally:
        emulator.kill()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)
    stored = "SELECT count(*), extract(epoch FROM max(received_at) - min(received_at)) FROM upstream.messages"
    total, seconds = cluster.query(stored)[0].split("|")
    if int(total) != count:
        raise RuntimeError(f"{total} messages stored of {count}")
    return float(seconds)


def clean(cluster):
    cluster.query("TRUNCATE upstream.messages, upstream.message_ids, upstream.deliveries, upstream.delivery_blocks, app.taken")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=int, default=20)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--program", default=f"{ROOT}/.build/release/upstream-worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        standby = None
        try:
            cluster.query("ALTER SYSTEM SET max_connections = 200")
            cluster.stop("fast")
            cluster.start()
            emulator, port = start_emulator(options.program, folder)
            path = configuration(folder, 1, cluster, port)
            emulator.kill()
            subprocess.run([options.program, "migrate", "up", "--config", path], check=True, capture_output=True)
            cluster.query(SETUP)
            took = lone(options, folder, cluster)
            print(f"lone messages, no standby: arrival to handler elsewhere p50 {took[0]:.1f} ms, p99 {took[1]:.1f}", flush=True)
            standby = Standby(cluster, options.delay)
            rates = {"one process": [], "two": []}
            for _ in range(options.rounds):
                for name, roles in (("one process", ["receive,dispatch"]), ("two", ["dispatch", "receive"])):
                    clean(cluster)
                    load = options.messages, None, "log: {}", options.connections, options.writers
                    with Waits(cluster) as waits:
                        seconds = run(options, folder, cluster, roles, *load)
                    rates[name].append(options.messages / seconds)
                    waiting = statistics.mean(waits.counts)
                    print(f"{name}: {rates[name][-1]:,.0f} stored/s, {waiting:.1f} sessions waiting", flush=True)
            one, two = (statistics.median(each) for each in rates.values())
            print(f"medians: one process {one:,.0f}, two {two:,.0f} stored/s: {two / one:.2f}", flush=True)
            took = lone(options, folder, cluster)
            print(f"lone messages, standby {options.delay} ms away: p50 {took[0]:.1f} ms, p99 {took[1]:.1f}")
        finally:
            if standby:
                standby.stop()
            cluster.stop("immediate")


def lone(options, folder, cluster):
    clean(cluster)

    def times():
        return sorted(map(float, cluster.query("SELECT took FROM app.taken")))

    def handled():
        wait_until("all to be handled", lambda: len(times()) == 300, 30)

    handler = "sql: {function: app.take}"
    run(options, folder, cluster, ["dispatch", "receive"], 300, 20, handler, connections=1, writers=1, handled=handled)
    took = times()
    return took[150], took[297]


if __name__ == "__main__":
    main()
