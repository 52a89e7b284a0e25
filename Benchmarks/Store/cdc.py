#!/usr/bin/env python3
"""How far behind a copy by logical replication is, and whether it has every message after restarts of both servers.

    make program
    Benchmarks/Store/cdc.py [--messages 100000] [--rate 20000] [--connections 16] [--program FILE]

Two private PostgreSQLs and docs/cdc.md between them, followed to the letter; one worker that only receives. Messages come twice
at --rate: undisturbed, then while first the copy (fast) and then the source (killed) are restarted. Lag is the time from a
message's arrival to its row in the copy. Fails where a row differs, or where p99 exceeds a second: without restarts, and of what
arrived while both servers ran and the copy was not catching up.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/Benchmarks/Chaos")
from system import Cluster, configuration, start_emulator, wait_until  # noqa: E402

COLUMNS = "message_key, sender_id, message_id, device_key, category, data::text, data_raw, received_at"
ROWS = f"SELECT count(*), md5(string_agg(concat_ws('|', {COLUMNS}), ',' ORDER BY received_at, message_key)) FROM upstream.messages"


def page():
    """The page's SQL: publication, role, copy, subscription, and what follows the first copy."""
    with open(f"{ROOT}/docs/cdc.md") as file:
        return re.findall(r"```sql\n(.*?)\n```", file.read(), re.S)[:5]


def cluster(folder, name, *settings):
    os.mkdir(f"{folder}/{name}")
    made = Cluster(f"{folder}/{name}")
    for setting in settings:
        made.query(f"ALTER SYSTEM SET {setting}")
    made.stop("fast")
    made.start()
    return made


class Pair:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.source = cluster(folder, "source", "wal_level = logical", "max_connections = 100", "max_wal_size = '4GB'")
        self.copy = cluster(folder, "copy", "wal_retrieve_retry_interval = '200ms'", "max_wal_size = '4GB'")

    def connect(self):
        publication, role, tables, subscription, after = page()
        self.source.query(publication)
        self.source.query(role)
        self.copy.query(tables)
        place = f"CONNECTION 'host={self.source.socket} dbname=upstream user=upstream_copy'"
        self.copy.query(re.sub(r"CONNECTION '[^']*'", place, subscription))
        ready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'"
        wait_until("the first copy", lambda: self.copy.query(ready) == ["2"], 60)
        self.copy.query(after)

    def behind(self):
        """Bytes of the log that the copy has yet to apply; infinite while it is not connected."""
        text = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) FROM pg_stat_replication"
        rows = self.source.query(text, check=False)
        return float(rows[0]) if rows and rows[0] else float("inf")

    def restart(self, which, mode):
        """Restarts a server; returns when it was stopped, when it ran again, and when the copy had caught up."""
        times = [time.time()]
        which.stop(mode)
        which.start()
        times.append(time.time())
        wait_until("the copy", lambda: self.behind() < 1 << 18, 120)
        return [*times, time.time()]

    def run(self, restarts):
        """Sends the messages; returns how many were stored a second and, of each restart, its times."""
        options, start, taken = self.options, time.time(), []
        emulator, port = start_emulator(options.program, self.folder, "--count", options.messages, "--rate", options.rate)
        path = configuration(self.folder, 1, self.source, port, options.connections, 4, "log: {}")
        command = [options.program, "run", "--config", path, "--roles", "receive"]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{self.folder}/worker.log", "a"))
        arrived = f"SELECT count(*) FROM upstream.messages WHERE received_at > to_timestamp({start})"
        try:
            for number, (which, mode) in enumerate(restarts, 1):
                share = options.messages * number / (len(restarts) + 1)
                wait_until("messages", lambda: int(self.source.query(arrived)[0]) >= share, 600)
                taken.append(self.restart(which, mode))
            emulator.communicate(timeout=900)
        finally:
            emulator.kill()
            worker.terminate()
            worker.wait(60)
        end = self.source.query("SELECT pg_current_wal_lsn()")[0]
        applied = f"SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= '{end}'"
        wait_until("the copy", lambda: self.source.query(applied) == ["1"], 300)
        there, here = self.source.query(ROWS)[0], self.copy.query(ROWS)[0]
        if there != here:
            raise SystemExit(f"the copy differs: {there} at the source, {here} in the copy")
        seconds = f"SELECT extract(epoch FROM max(received_at) - min(received_at)) FROM upstream.messages WHERE received_at > to_timestamp({start})"
        rate = options.messages / float(self.source.query(seconds)[0])
        print(f"  {there.split('|')[0]} rows, the same in both; {rate:,.0f} stored/s", flush=True)
        return start, taken

    def lag(self, start, away=()):
        """p50, p99 and the most, in seconds, of what arrived from a time on but not in some spans."""
        spans = "".join(f" AND NOT received_at BETWEEN to_timestamp({first}) AND to_timestamp({last})" for first, last in away)
        text = f"""
            SELECT count(*), percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM copied_at - received_at))
            FROM upstream.messages WHERE received_at > to_timestamp({start}){spans}
        """
        count, times = self.copy.query(text)[0].split("|")
        if int(count) == 0:
            raise SystemExit("nothing arrived while both ran: send more --messages")
        return int(count), [float(each) for each in times.strip("{}").split(",")]

    def report(self, what, start, away=()):
        count, (p50, p99, most) = self.lag(start, away)
        print(f"  lag of {what} ({count:,}): p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f}, most {most * 1000:.0f}", flush=True)
        return p99


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--program", default=f"{ROOT}/.build/release/upstream-worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        pair = Pair(options, folder)
        try:
            emulator, port = start_emulator(options.program, folder)
            path = configuration(folder, 1, pair.source, port)
            emulator.kill()
            subprocess.run([options.program, "migrate", "up", "--config", path], check=True, capture_output=True)
            pair.connect()
            print("undisturbed", flush=True)
            start, _ = pair.run([])
            worst = [pair.report("all", start)]
            print("with restarts of both", flush=True)
            start, taken = pair.run([(pair.copy, "fast"), (pair.source, "immediate")])
            for name, (stopped, ran, caught_up) in zip(("copy", "source"), taken):
                print(f"  {name}: down {ran - stopped:.1f} s, caught up {caught_up - ran:.1f} s later", flush=True)
            pair.report("all", start)
            # What arrived shortly before a stop was stored, or copied, only after it.
            away = [(stopped - 1, caught_up) for stopped, _, caught_up in taken]
            worst.append(pair.report("what arrived while both ran", start, away))
            if max(worst) > 1:
                raise SystemExit("p99 is over a second")
        finally:
            for server in (pair.source, pair.copy):
                server.stop("immediate")


if __name__ == "__main__":
    main()
