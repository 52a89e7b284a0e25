#!/usr/bin/env python3
"""How fast a database function takes messages: alone, in batches, and in batches with a bad one in each.

    make program
    Benchmarks/Store/functions.py [--messages 50000] [--concurrency 4] [--program FILE]

A private PostgreSQL, one worker. Each time: messages are stored with their deliveries, which wait as rows; then a worker that
only dispatches calls a function that does nothing (or rejects every hundredth message) until none is left. Last, a worker that
receives and calls the function at once. Prints messages a second, and the processor time of PostgreSQL and worker for each.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/Benchmarks/Chaos")
from system import Cluster, configuration, start_emulator, wait_until  # noqa: E402

SETUP = """
CREATE SCHEMA app;
CREATE FUNCTION app.empty(message upstream.messages) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION app.rejects(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF hashtext(message.message_key::text) % 100 = 0 THEN RAISE EXCEPTION 'reject: bad'; END IF;
END $$;
CREATE FUNCTION app.all(messages upstream.messages[]) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
"""
TICK = os.sysconf("SC_CLK_TCK")


def processor(pid):
    """The processor seconds of a process, of its children, and of those that have ended."""
    total = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(name) == pid:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            total += sum(map(int, fields[11:13]))
    return total / TICK


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.cluster = options, folder, Cluster(folder)
        with open(f"{self.cluster.data}/postmaster.pid") as file:
            self.postmaster = int(file.readline())

    def worker(self, port, handler, roles):
        path = configuration(self.folder, 1, self.cluster, port, 4, 2, handler)
        log = open(f"{self.folder}/worker.log", "a")
        command = [self.options.program, "run", "--config", path, "--roles", roles]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    def left(self):
        return int(self.cluster.query("SELECT count(*) FROM upstream.deliveries")[0])

    def store(self, port, emulator, handler, roles):
        """Stores the messages by a worker with these roles, which is stopped; returns what it took."""
        before = processor(self.postmaster)
        worker = self.worker(port, handler, roles)
        try:
            emulator.communicate(timeout=900)
            wait_until("the deliveries", lambda: "dispatch" not in roles or self.left() == 0, 600)
            return processor(self.postmaster) - before, processor(worker.pid)
        finally:
            worker.terminate()
            worker.wait(60)

    def handle(self, port, handler):
        before = processor(self.postmaster)
        worker = self.worker(port, handler, "dispatch")
        try:
            wait_until("the first", lambda: self.left() < self.options.messages, 60)
            begun, first = time.monotonic(), self.left()
            wait_until("the last", lambda: self.left() == 0, 900)
            rate = first / (time.monotonic() - begun)
            each = 1e6 / self.options.messages
            database = (processor(self.postmaster) - before) * each
            return rate, database, processor(worker.pid) * each
        finally:
            worker.terminate()
            worker.wait(60)

    def measure(self, name, function, batch):
        options = self.options
        handler = f"concurrency: {options.concurrency}, sql: {{function: {function}, batch: {batch}}}"
        self.cluster.query("TRUNCATE upstream.messages, upstream.message_ids, upstream.deliveries, upstream.dead_letters")
        emulator, port = start_emulator(options.program, self.folder, "--count", options.messages)
        try:
            subscriber = self.worker(port, handler, "dispatch")
            wait_until("the subscription", lambda: self.cluster.query("SELECT handler FROM upstream.handler_workers"), 60)
            subscriber.terminate()
            subscriber.wait(60)
            self.store(port, emulator, handler, "receive")
            rate, database, worker = self.handle(port, handler)
        finally:
            emulator.kill()
        dead = self.cluster.query("SELECT count(*) FROM upstream.dead_letters")[0]
        print(
            f"{name}: {rate:,.0f}/s, PostgreSQL {database:.0f} µs and worker {worker:.0f} µs each, {dead} dead letters",
            flush=True,
        )

    def live(self):
        options = self.options
        took = {}
        for name, handler in (("without a function", "log: {}"), ("with", "sql: {function: app.empty}")):
            self.cluster.query("TRUNCATE upstream.messages, upstream.message_ids, upstream.deliveries, upstream.dead_letters")
            emulator, port = start_emulator(options.program, self.folder, "--count", options.messages)
            begun = time.monotonic()
            try:
                database, worker = self.store(port, emulator, handler, "receive,dispatch")
            finally:
                emulator.kill()
            took[name] = (time.monotonic() - begun, database, worker)
            each = 1e6 / options.messages
            print(
                f"received and handled at once, {name}: {options.messages / took[name][0]:,.0f}/s,"
                f" PostgreSQL {database * each:.0f} µs and worker {worker * each:.0f} µs each",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--concurrency", type=int, default=4)
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
            bench.measure("alone", "app.empty", 1)
            bench.measure("batches", "app.empty", 100)
            bench.measure("batches, one bad in each", "app.rejects", 100)
            bench.measure("batches, an array function", "app.all", 100)
            bench.live()
        finally:
            bench.cluster.stop("immediate")


if __name__ == "__main__":
    main()
