#!/usr/bin/env python3
"""Random faults for a given time, and then the question whether anything that was acked is missing or doubled.

    make chaos ARGS="--seconds 600"
    Benchmarks/Chaos/chaos.py --program .build/release/upstream-worker [--seconds 300] [--rate 1000] [--seed 7]

A private PostgreSQL (fsync on), the emulator with faults of its own on the wire (duplicates, redelivery on another
connection, torn and cut streams, draining), and two workers that share its sender and the database. Every few seconds one
fault, chosen by the seed: workers killed, stopped and frozen; the server killed, restarted and frozen; its sessions ended;
its tables locked. Killed programs are started again at once.

At the end everything is left in peace until the emulator has had every ack and no delivery waits. Then it is counted:
acked ids (the emulator's transcript) without a row, ids with more than one row, deliveries that a database function took
other than once, messages of the ledger without a body. Exit code 0 if each of them is none. The seed makes the choice of
faults repeatable, not their exact moment.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from system import Cluster, Worker, configuration, start_emulator, wait_until, wire_faults

# A handler inside the database, so that its messages can be counted by key.
HANDLER = """
CREATE SCHEMA app;
CREATE TABLE app.taken (message_key uuid, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql
    AS 'INSERT INTO app.taken VALUES (message.message_key)';
"""


class Chaos:
    """The faults, each with what takes it back."""

    def __init__(self, cluster, workers, dice):
        self.cluster, self.workers, self.dice = cluster, workers, dice
        self.counts = collections.Counter()
        self.faults = {
            "worker killed": (5, self.kill_worker),
            "worker stopped": (3, self.stop_worker),
            "worker frozen": (3, self.freeze_worker),
            "both workers killed": (1, self.kill_workers),
            "database killed": (3, self.kill_database),
            "database restarted": (2, self.restart_database),
            "database frozen": (3, self.freeze_database),
            "sessions ended": (4, self.end_sessions),
            "ledger locked": (3, self.lock_ledger),
        }

    def one(self):
        weights = [weight for weight, _ in self.faults.values()]
        name = self.dice.choices(list(self.faults), weights)[0]
        self.counts[name] += 1
        self.faults[name][1]()

    def wait(self, least, most):
        """Meanwhile ended workers are started again."""
        end = time.monotonic() + self.dice.uniform(least, most)
        while time.monotonic() < end:
            for worker in self.workers:
                worker.keep()
            time.sleep(0.05)

    def kill_worker(self):
        self.dice.choice(self.workers).send(signal.SIGKILL)

    def kill_workers(self):
        for worker in self.workers:
            worker.send(signal.SIGKILL)

    def stop_worker(self):
        self.dice.choice(self.workers).send(signal.SIGTERM)

    def freeze_worker(self):
        worker = self.dice.choice(self.workers)
        worker.send(signal.SIGSTOP)
        self.wait(0.5, 8)
        worker.send(signal.SIGCONT)

    def kill_database(self):
        for process in self.cluster.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.wait(0.5, 4)
        self.start_database()

    def start_database(self):
        for attempt in range(10):
            try:
                return self.cluster.start()
            except subprocess.CalledProcessError:
                # Its processes are still ending, and hold the shared memory.
                time.sleep(0.5)
        raise RuntimeError(f"PostgreSQL doesn't start: see {self.cluster.socket}/log")

    def restart_database(self):
        self.cluster.stop(self.dice.choice(["fast", "immediate"]))
        self.wait(0, 6)
        self.start_database()

    def freeze_database(self):
        frozen = self.cluster.processes()
        for process in frozen:
            os.kill(process, signal.SIGSTOP)
        self.wait(0.5, 10)
        for process in frozen:
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def end_sessions(self):
        self.cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = 'upstream' AND pid <> pg_backend_pid()",
            check=False,
        )

    def lock_ledger(self):
        seconds = self.dice.uniform(0.5, 6)
        self.cluster.query(
            f"BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE upstream.message_ids; SELECT pg_sleep({seconds:.2f});"
            " COMMIT;",
            check=False,
        )


def acked_ids(path):
    """The ids of the acks in the transcript, with how often each was acked, and when acks came."""
    streams = collections.defaultdict(str)
    acked, times = collections.Counter(), []
    pattern = re.compile(r"\{[^{}]*\}")
    with open(path, errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                # The last line is incomplete if the emulator was killed.
                continue
            if entry["direction"] != "in":
                continue
            text = streams[entry["connection"]] + entry["text"]
            end = 0
            for match in pattern.finditer(text):
                end = match.end()
                if '"message_type":"ack"' not in match.group():
                    continue
                acked[json.loads(match.group())["message_id"]] += 1
                times.append(entry["time"])
            streams[entry["connection"]] = text[end:][-16384:]
    return acked, times


def longest_gap(times):
    moments = sorted({time_of(text) for text in times})
    return max((later - earlier for earlier, later in zip(moments, moments[1:])), default=0)


def time_of(text):
    clock, fraction = text.rstrip("Z").split(".")
    return time.mktime(time.strptime(clock, "%Y-%m-%dT%H:%M:%S")) + float("0." + fraction)


def is_text(value):
    """Whether PostgreSQL can hold it: what it can't is in quarantine without its id."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def escaped(text):
    """As COPY reads it."""
    for character, name in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, name)
    return text


def judge(cluster, acked):
    """What is wrong, each as a sentence with its number; empty where everything is right."""
    cluster.query("CREATE TABLE app.acked (message_id text PRIMARY KEY)")
    rows = "\n".join(escaped(text) for text in acked if is_text(text))
    cluster.query(f"COPY app.acked FROM STDIN;\n{rows}\n\\.\n")
    questions = {
        "acked messages are stored nowhere": """
            SELECT count(*) FROM app.acked AS a
            WHERE NOT EXISTS (SELECT FROM upstream.messages AS m WHERE m.message_id = a.message_id)
              AND NOT EXISTS (SELECT FROM upstream.quarantine AS q WHERE q.message_id = a.message_id)""",
        "ids have more than one message": """
            SELECT count(*) FROM (SELECT FROM upstream.messages GROUP BY sender_id, message_id HAVING count(*) > 1) AS d""",
        "ids of the ledger have no message": """
            SELECT count(*) FROM upstream.message_ids AS i
            WHERE NOT EXISTS (SELECT FROM upstream.messages AS m WHERE m.message_key = i.message_key)""",
        "messages have no id in the ledger": """
            SELECT count(*) FROM upstream.messages AS m
            WHERE NOT EXISTS (SELECT FROM upstream.message_ids AS i WHERE i.message_key = m.message_key)""",
        "messages were not taken exactly once by the handler": """
            SELECT count(*) FROM (
                SELECT m.message_key FROM upstream.messages AS m LEFT JOIN app.taken AS t USING (message_key)
                GROUP BY m.message_key HAVING count(t.message_key) <> 1) AS d""",
        "dead letters": "SELECT count(*) FROM upstream.dead_letters",
    }
    found = {name: int(cluster.query(query)[0]) for name, query in questions.items()}
    return {name: number for name, number in found.items() if number}


def run(options, folder):
    cluster = Cluster(folder)
    workers, emulator = [], None
    try:
        emulator, port = start_emulator(
            options.program, folder, "--rate", options.rate, "--count", options.rate * options.seconds,
            "--faults", wire_faults(options.rate), "--transcript", f"{folder}/transcript", "--seed", options.seed,
        )  # fmt: skip
        configurations = [configuration(folder, number, cluster, port) for number in (1, 2)]
        subprocess.run([options.program, "migrate", "up", "--config", configurations[0]], check=True, capture_output=True)
        cluster.query(HANDLER)
        workers = [Worker(options.program, path, f"{path}.log") for path in configurations]
        chaos = Chaos(cluster, workers, random.Random(options.seed))
        begin = time.monotonic()
        while emulator.poll() is None and time.monotonic() - begin < options.seconds:
            chaos.wait(0.5, 4)
            chaos.one()
            if sys.stderr.isatty():
                print(f"\r{time.monotonic() - begin:6.0f} s  {sum(chaos.counts.values())} faults ", end="", file=sys.stderr)
        # Without faults: the rest is sent, acked and handled.
        wait_until("the last ack", lambda: chaos.wait(0.1, 0.2) or emulator.poll() is not None, options.seconds + 300)
        waiting = "SELECT (SELECT count(*) FROM upstream.deliveries) + (SELECT count(*) FROM upstream.delivery_blocks)"
        wait_until("the handler", lambda: chaos.wait(0.1, 0.2) or cluster.query(waiting, check=False) == ["0"], 300)
        summary = json.loads(emulator.stdout.read() or "{}")
        ended = [worker.end() for worker in workers]
        return report(options, folder, cluster, chaos, workers, summary, emulator.returncode, ended)
    finally:
        for worker in workers:
            worker.process.kill()
        if emulator and emulator.poll() is None:
            emulator.kill()
        cluster.stop("immediate")


def report(options, folder, cluster, chaos, workers, summary, code, ended):
    acked, times = acked_ids(f"{folder}/transcript")
    wrong = judge(cluster, acked)
    if code != 0:
        wrong["= exit code of the emulator, which found faults in the acks"] = code
    for status in [status for status in ended if status]:
        wrong["= exit code of a worker after SIGTERM"] = status
    for worker in workers:
        for status, number in worker.refused.items():
            if number:
                wrong[f"times a worker ended by itself with exit code {status}"] = number
    stored = int(cluster.query("SELECT count(*) FROM upstream.messages")[0])
    print(f"seed        {options.seed}")
    print(f"faults      {sum(chaos.counts.values())}: " + ", ".join(f"{n} {f}" for f, n in chaos.counts.most_common()))
    print(f"workers     {sum(worker.starts for worker in workers)} starts of 2")
    print(f"messages    {stored:,} stored, {len(acked):,} ids acked in {sum(acked.values()):,} acks")
    print(f"no acks     {longest_gap(times):.1f} s at most")
    print(f"wire        {json.dumps(summary)}")
    for name, number in wrong.items():
        print(f"WRONG       {number} {name}")
    if not wrong:
        print("nothing that was acked is missing, nothing is stored twice, and the handler took each message once")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=".build/release/upstream-worker")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rate", type=int, default=1000, help="messages per second")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and transcript")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    folder = tempfile.mkdtemp(prefix="upstream-chaos-", dir="/var/tmp")
    code = 70
    try:
        code = run(options, folder)
    finally:
        if code and not options.keep:
            print(f"logs and transcript are in {folder}", file=sys.stderr)
        elif not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
