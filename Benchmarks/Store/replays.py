#!/usr/bin/env python3
"""How long live messages wait for their handler beside a replay to the same handler, and what they cost the replay.

    make program
    Benchmarks/Store/replays.py [--stored 200000] [--rate 200] [--seconds 10] [--devices 1000] [--kinds log,sql,device,limit]
        [--program FILE]

A private PostgreSQL, one worker; for `limit`, which holds over all, a second one that dispatches. For each kind of handler: live
messages alone, a replay alone, both. Prints the time from a live message's arrival to the begin of its attempt (`upstream.attempts`),
and how many messages the replay sent a second.
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

SETUP = """
CREATE SCHEMA app;
CREATE FUNCTION app.empty(message upstream.messages) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
"""
EMPTY = "sql: {function: app.empty}"
HANDLERS = {
    "log": "log: {}",
    "sql": f"concurrency: 4, {EMPTY}",
    "device": f"concurrency: 4, ordering: device, {EMPTY}",
    "limit": "concurrency: 4, limit: {concurrency: 4, across: workers}, " + EMPTY,
}
WAITED = """
SELECT count(*), round(percentile_disc(0.5) WITHIN GROUP (ORDER BY waited), 1), round(percentile_disc(0.99) WITHIN GROUP (ORDER BY waited), 1)
FROM (
    SELECT 1000 * extract(epoch FROM started_at - received_at) AS waited
    FROM upstream.attempts JOIN upstream.messages USING (message_key) WHERE received_at BETWEEN '%s' AND '%s'
) AS live
"""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.cluster, self.replays = options, folder, Cluster(folder), 0

    def command(self, *arguments):
        command = [self.options.program, *arguments, "--config", f"{self.folder}/worker-1.yaml"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def now(self):
        return self.cluster.query("SELECT clock_timestamp()")[0]

    def workers(self, kind, *emulator):
        """The emulator, and the workers that take its messages."""
        devices = ("--devices", self.options.devices)
        sender, port = start_emulator(self.options.program, self.folder, *devices, *emulator)
        log = open(f"{self.folder}/worker.log", "a")
        workers = []
        for number, roles in enumerate(["receive,dispatch"] + ["dispatch"] * (kind == "limit"), 1):
            path = configuration(self.folder, number, self.cluster, port, 2, 2, HANDLERS[kind])
            workers.append(start_worker(self.options.program, path, roles, log))
        return sender, workers

    def stop(self, workers):
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)

    def count(self, since):
        return int(self.cluster.query(f"SELECT count(*) FROM upstream.messages WHERE received_at > '{since}'")[0])

    def idle(self):
        return self.cluster.query("SELECT count(*) FROM upstream.deliveries")[0] == "0"

    def store(self, kind):
        sender, workers = self.workers(kind, "--count", self.options.stored)
        try:
            sender.communicate(timeout=900)
            wait_until("the handler", self.idle, 600)
        finally:
            self.stop(workers)

    def replay(self, until):
        """Replays what was received before; returns its begin, its end, and messages a second."""
        self.replays += 1
        name = f"run-{self.replays}"
        self.command(
            "replay", "plan", name, "--to-handlers", "--until", until, "--include-succeeded", "--include-replayed", "--reason", "bench"
        )  # fmt: skip
        self.command("replay", "start", name)
        row = f"FROM upstream.replays WHERE name = '{name}'"
        wait_until(name, lambda: self.cluster.query(f"SELECT finished_at IS NOT NULL {row}") == ["t"], 900)
        begun, ended, seconds = self.cluster.query(
            f"SELECT started_at, finished_at, extract(epoch FROM finished_at - started_at) {row}"
        )[0].split("|")
        return begun, ended, self.options.stored / float(seconds)

    def measure(self, kind):
        self.cluster.query("TRUNCATE upstream.messages, upstream.message_ids, upstream.deliveries, upstream.attempt_batches")
        self.store(kind)
        until = self.now()
        sender, workers = self.workers(kind, "--rate", self.options.rate)
        try:
            wait_until("live messages", lambda: self.count(until) > 0, 60)
            begun = self.now()
            time.sleep(self.options.seconds)
            alone = self.now()
            beside = self.replay(until)
            sender.terminate()
            sender.wait(60)
            wait_until("the handler", self.idle, 600)
            undisturbed = self.replay(until)
        finally:
            sender.kill()
            self.stop(workers)
        for name, span in (("live alone", (begun, alone)), ("live beside a replay", beside[:2])):
            count, middle, most = self.cluster.query(WAITED % span)[0].split("|")
            print(f"{kind}, {name}: {count} messages, p50 {middle} ms, p99 {most} ms", flush=True)
        print(f"{kind}, replay: alone {undisturbed[2]:,.0f}/s, beside live messages {beside[2]:,.0f}/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(HANDLERS))
    parser.add_argument("--program", default=f"{ROOT}/.build/release/upstream-worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        try:
            emulator, port = start_emulator(options.program, folder)
            path = configuration(folder, 1, bench.cluster, port)
            emulator.kill()
            subprocess.run([options.program, "migrate", "up", "--config", path], check=True, capture_output=True)
            bench.cluster.query(SETUP)
            for kind in options.kinds:
                bench.measure(kind)
        finally:
            bench.cluster.stop("immediate")


if __name__ == "__main__":
    main()
