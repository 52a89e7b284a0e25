#!/usr/bin/env python3
"""The whole worker on a day that has many messages: its rate beside an empty day's, and replays beside a backlog.

    scripts/install-test-tools && make program
    .build/test-tools/bin/pip install -r Benchmarks/Store/requirements.txt
    .build/test-tools/bin/python Benchmarks/Store/whole.py [--rows 10000000] [--rounds 6] [--messages 300000]

A private cluster as in store.py, the emulator, and the worker with 10 connections; both kinds of days in turns. What is
compared are pairs: nothing else may run. Empty days are databases of their own, made before: dropping one is a checkpoint,
and behind a checkpoint the first change of each page logs the whole page. --checkpoint asks for that before each filled turn.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import time

from store import ROOT, Cluster, fill

PROGRAM = f"{ROOT}/.build/release/upstream-worker"
SENDER = "1234567890"
HANDLER = 'handlers: [{name: taken, categories: ["*"], concurrency: 8, log: {}}]\n'


def wait_until(condition, seconds=300):
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"waited {seconds} s in vain")
        time.sleep(0.02)
    return value


class Site:
    """The databases of a cluster, and programs that work on them."""

    def __init__(self, options):
        self.cluster = Cluster(options.shared_buffers, options.huge_pages)
        self.folder = self.cluster.folder
        self.write("secret", "FAKE-secret")
        os.chmod(f"{self.folder}/secret", 0o600)
        self.connect("postgres").execute("CREATE DATABASE empty")
        self.run("migrate", "up", "--config", self.configuration("empty", 1))

    def connect(self, database):
        return self.cluster.connect(database)

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)
        return f"{self.folder}/{name}"

    def configuration(self, database, port, handlers=""):
        sender = f"sender_id: '{SENDER}', host: 127.0.0.1, port: {port}, domain: gcm.googleapis.com, connections: 10"
        return self.write(
            f"{database}.yaml",
            f"database: {{url: 'postgresql://upstream@/{database}?host={self.folder}'}}\n"
            f"senders: [{{{sender}, secret_file: {self.folder}/secret, tls: {{ca_file: {self.folder}/ca.pem}}}}]\n"
            f"{handlers}admin: {{listen: 'off'}}\n",
        )

    def run(self, *arguments):
        subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self, log, *arguments, stdout=None):
        file = open(f"{self.folder}/{log}", "w")
        return subprocess.Popen([PROGRAM, *arguments], stdout=stdout or file, stderr=file, text=True)

    def log(self, name):
        with open(f"{self.folder}/{name}") as file:
            return file.read()

    def receive(self, database, count):
        """Receives so many messages, each stored and acked once; gives the seconds from the worker's start to the last ack."""
        options = ["--sender-id", SENDER, "--secret-file", f"{self.folder}/secret", "--write-ca", f"{self.folder}/ca.pem"]
        emulator = self.start(
            "emulator.log", "emulate", "--listen", "127.0.0.1:0", *options, "--count", str(count), "--json", stdout=subprocess.PIPE
        )
        port = wait_until(lambda: re.search(r"127\.0\.0\.1:(\d+)", self.log("emulator.log")))[1]
        started = time.monotonic()
        worker = self.start("worker.log", "run", "--config", self.configuration(database, port))
        summary = json.loads(emulator.communicate(timeout=300)[0])
        elapsed = time.monotonic() - started
        stop(worker)
        assert summary["isClean"] and summary["acked"] == count, summary
        return elapsed

    def rate(self, database, count):
        few = min(1000, count // 2)
        return (count - few) / (self.receive(database, count) - self.receive(database, few))

    def dispatch(self, database, begin, isDone):
        """Runs a worker that only dispatches; gives the seconds from `begin` until `isDone`, and the lines that its handler wrote."""
        configuration = self.configuration(database, 1, HANDLER)
        worker = self.start("dispatcher.log", "run", "--roles", "dispatch", "--config", configuration)
        wait_until(lambda: "worker.ready" in self.log("dispatcher.log"))
        started = time.monotonic()
        begin(configuration)
        wait_until(isDone)
        elapsed = time.monotonic() - started
        stop(worker)
        return elapsed, self.log("dispatcher.log").count('"message_key"')


def stop(worker):
    worker.terminate()
    worker.wait(60)


def days(site, options):
    administrator = site.connect("postgres")
    for name in ["filled", *(f"empty{turn}" for turn in range(options.rounds + 1))]:
        administrator.execute(f"CREATE DATABASE {name} TEMPLATE empty")
    fill(site.connect("filled"), options.rows, False)
    ratios = []
    for turn in range(options.rounds + 1):
        rates = {}
        for name in ["filled", f"empty{turn}"] if turn % 2 else [f"empty{turn}", "filled"]:
            if options.checkpoint and name == "filled":
                administrator.execute("CHECKPOINT")
            rates[name] = site.rate(name, options.messages)
        ratio = rates["filled"] / rates[f"empty{turn}"]
        if turn > 0:  # the first one fills caches
            ratios.append(ratio)
        print(f"turn {turn}: filled {rates['filled']:7.0f}/s, empty {rates[f'empty{turn}']:7.0f}/s, ratio {ratio:.2f}", flush=True)
    print(f"median ratio of {len(ratios)} pairs: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def replays(site, options):
    count = options.messages
    site.receive("empty", count)
    connection = site.connect("empty")

    def ask(text):
        return connection.execute(text).fetchone()[0]

    def replay(configuration, name):
        choice = ["--since", "1d", "--to-handlers", "--include-replayed", "--reason", "a measurement"]
        site.run("replay", "plan", name, *choice, "--config", configuration)
        site.run("replay", "start", name, "--config", configuration)

    def is_replayed(name):
        state = ask(f"SELECT state FROM upstream.replays WHERE name = '{name}'")
        return state == "finished" and ask("SELECT count(*) FROM upstream.deliveries") == 0

    for turn in range(options.rounds):
        name = f"replay-{turn}"
        elapsed, lines = site.dispatch("empty", lambda file: replay(file, name), lambda: is_replayed(name))
        assert lines == count, f"{lines} lines"
        print(f"turn {turn}: replay, with its plan, {count / elapsed:7.0f}/s", end="", flush=True)
        connection.execute(
            "INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at) "
            "SELECT 'taken', message_key, received_at, now() FROM upstream.messages"
        )
        connection.execute("ANALYZE upstream.deliveries")
        elapsed, lines = site.dispatch(
            "empty", lambda file: None, lambda: ask("SELECT count(*) FROM upstream.deliveries") == 0
        )
        assert lines == count, f"{lines} lines"
        print(f", backlog {count / elapsed:7.0f}/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="messages of the filled day")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--messages", type=int, default=300_000, help="in one turn")
    parser.add_argument("--shared-buffers", default="512MB", help="of PostgreSQL")
    parser.add_argument("--huge-pages", action="store_true", help="for shared_buffers; vm.nr_hugepages has to be set")
    parser.add_argument("--checkpoint", action="store_true", help="before each filled turn")
    parser.add_argument("--only", choices=["days", "replays"])
    options = parser.parse_args()
    site = Site(options)
    try:
        if options.only != "replays":
            days(site, options)
        if options.only != "days":
            replays(site, options)
    finally:
        site.cluster.stop()


if __name__ == "__main__":
    main()
