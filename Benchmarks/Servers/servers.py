#!/usr/bin/env python3
"""Throughput through Prosody and ejabberd, beside the same load through the emulator, in one run.

    Benchmarks/Servers/servers.py [MESSAGES] [ROUNDS] [WAY]    after `make release` and scripts/install-test-tools

Everything is private and on the loopback address: a PostgreSQL (fsync on), each server with its configuration of
docs/servers.md, the worker, and a device that keeps up to 1,000 messages of 400 bytes under way. Rates go from the first
message to the last ack that the device has read; processor time is that of the whole process, or of all of PostgreSQL's.
Compare the ratios of one run.
"""

import base64
import html
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = pathlib.Path(os.environ.get("WORKER_PROGRAM", ROOT / ".build/release/upstream-worker"))
SECRET = "FAKE-SECRET-for-a-benchmark"
DOMAIN = "bench.test"
UNDER_WAY = 1000
TICK = os.sysconf("SC_CLK_TCK")


def block(first_line):
    """The configuration in docs/servers.md that begins with this line."""
    parts = (ROOT / "docs/servers.md").read_text().split("\n```")
    return next(p.split("\n", 1)[1] for p in parts if p.split("\n", 1)[-1].startswith(first_line + "\n")) + "\n"


def substitute(text, *pairs):
    for old, new in pairs:
        if old not in text:
            sys.exit(f"docs/servers.md: no {old!r}")
        text = text.replace(old, str(new))
    return text


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def as_user(user, command):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command] if os.getuid() == 0 else command


def wait_for(what, condition, limit=60):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"not within {limit} s: {what}")
        time.sleep(0.02)


def cpu(pid):
    """Seconds of processor time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def family_cpu(pid):
    """The same of a process with its children, those that have ended too."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = cpu(pid) + (int(fields[13]) + int(fields[14])) / TICK
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (path / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                total += cpu(path.name)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


class Bench:
    def __init__(self, folder, messages):
        self.folder = folder
        self.messages = messages
        self.processes = []
        self.ports = free_ports(6)
        subject = f"DNS:{DOMAIN},DNS:upstream.{DOMAIN}"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
            + ["-subj", f"/CN={DOMAIN}", "-addext", f"subjectAltName={subject}"]
            + ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
            check=True, stderr=subprocess.DEVNULL,
        )
        (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
        (folder / "secret").write_text(SECRET)
        (folder / "secret").chmod(0o600)

    def spawn(self, command, log, environment=None):
        out = open(self.folder / log, "a")
        process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **(environment or {})},
        )
        self.processes.append(process)
        return process

    def end(self, process):
        process.kill()
        process.wait()
        self.processes.remove(process)

    def logged(self, log):
        path = self.folder / log
        return path.read_text(errors="replace") if path.exists() else ""

    def database(self):
        data, programs = self.folder / "pg", sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        data.mkdir()
        if os.getuid() == 0:
            shutil.chown(data, "postgres")
        initdb = [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "upstream", "-E", "UTF8"]
        subprocess.run(as_user("postgres", initdb), check=True, stdout=subprocess.DEVNULL, cwd="/")
        self.programs = programs
        self.url = f"postgresql://upstream@/postgres?host={data}"
        self.start_database()

    def start_database(self):
        data, before = self.folder / "pg", self.logged("pg.log").count("ready to accept")
        command = [self.programs / "postgres", "-D", data, "-c", "listen_addresses="]
        command += ["-c", f"unix_socket_directories={data}"]
        self.postgres = self.spawn(as_user("postgres", [str(part) for part in command]), "pg.log")
        wait_for("PostgreSQL", lambda: self.logged("pg.log").count("ready to accept") > before)

    def server(self, kind, *changes):
        """Starts one with changes to its configuration, and gives its process."""
        data = self.folder / kind
        data.mkdir(exist_ok=True)
        starttls, direct, component, component_tls, control, _ = self.ports
        log = data / "server.log"
        common = [("192.0.2.10", "127.0.0.1"), ("example.com", DOMAIN), ("CHANGE-ME", SECRET)]
        environment = {}
        if kind == "Prosody":
            text = substitute(
                block("-- /etc/prosody/prosody.cfg.lua"), ("/run/prosody/prosody.pid", data / "pid"),
                ("/var/lib/prosody", data), ("/var/log/prosody/prosody.log", log),
                ("/etc/prosody/certs/example.com.crt", data / "cert.pem"),
                ("/etc/prosody/certs/example.com.key", data / "key.pem"), ("{ 5222 }", f"{{ {starttls} }}"),
                ("{ 5223 }", f"{{ {direct} }}"), ("{ 5347 }", f"{{ {component} }}"), *common, *changes,
            )
            accounts = data / DOMAIN.replace(".", "%2e") / "accounts"
            accounts.mkdir(parents=True, exist_ok=True)
            for account in ("worker", "devices"):
                (accounts / f"{account}.dat").write_text(f'return {{ ["password"] = "{SECRET}"; }};\n')
            (data / "prosody.cfg.lua").write_text(text)
            user, ready = "prosody", ["Activated service 'c2s_direct_tls'", "Activated service 'component'"]
            command = ["prosody", "--config", str(data / "prosody.cfg.lua"), "-F"]
        else:
            api = f"""  - port: {control}
    ip: "127.0.0.1"
    module: ejabberd_http
    request_handlers: {{/api: mod_http_api}}
"""
            text = substitute(
                block("# /etc/ejabberd/ejabberd.yml"), ("/etc/ejabberd/example.com.pem", data / "both.pem"),
                ("port: 5222\n", f"port: {starttls}\n"), ("port: 5223\n", f"port: {direct}\n"),
                ("port: 5347\n", f"port: {component}\n"), ("port: 5348\n", f"port: {component_tls}\n"), *common,
                ("listen:\n", "listen:\n" + api), ("modules:\n", "modules:\n  mod_http_api: {}\n  mod_admin_extra: {}\n"),
                *changes,
            )
            (data / "ejabberd.yml").write_text(text + 'api_permissions:\n  bench: {who: all, what: "*"}\n')
            user, ready = "ejabberd", ["is started in the node"]
            command = ["erl", "-noinput", "+K", "true", "-mnesia", "dir", f'"{data}/mnesia"', "-s", "ejabberd"]
            environment = {
                "EJABBERD_CONFIG_PATH": str(data / "ejabberd.yml"), "EJABBERD_LOG_PATH": str(log), "HOME": str(data),
                "ERL_LIBS": f"/usr/lib/{os.uname().machine}-linux-gnu", "ERL_CRASH_DUMP": "/dev/null",
            }
        for name in ("cert.pem", "key.pem", "both.pem"):
            shutil.copy(self.folder / name, data)
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", user, data], check=True)
        process = self.spawn(as_user(user, command), f"{kind}.out", environment)
        said = lambda: log.read_text(errors="replace") if log.exists() else ""
        wait_for(kind, lambda: all(line in said() for line in ready))
        if kind == "ejabberd":
            for account in ("worker", "devices"):
                self.ask("register", {"user": account, "host": DOMAIN, "password": SECRET})
        return process

    def ask(self, command, arguments):
        """Gives a command of ejabberd's administration."""
        url, headers = f"http://127.0.0.1:{self.ports[4]}/api/{command}", {"Content-Type": "application/json"}
        return urllib.request.urlopen(urllib.request.Request(url, json.dumps(arguments).encode(), headers)).read().decode()

    def worker(self, name, sender):
        """Starts a worker on a fresh database, and gives its process and its log's name."""
        database = f"b{len(os.listdir(self.folder))}{time.monotonic_ns()}"
        data = self.folder / "pg"
        subprocess.run(
            ["psql", "-h", data, "-U", "upstream", "-q", "-d", "postgres", "-c", f"CREATE DATABASE {database}"], check=True
        )
        config = self.configuration(database, sender)
        subprocess.run([WORKER, "migrate", "up", "--config", config], check=True, capture_output=True)
        process = self.spawn([WORKER, "run", "--config", config], f"{database}.log")
        return process, f"{database}.log", database

    def configuration(self, database, sender):
        config = self.folder / f"{database}.json"
        # JSON is YAML.
        config.write_text(json.dumps({
            "database": {"url": self.url.replace("/postgres?", f"/{database}?")}, "senders": [sender],
            "admin": {"listen": "off"}, "log": {"format": "json"},
        }))
        return config

    def account(self, **keys):
        """A sender of a worker that signs in to the account `worker`."""
        tls = {"mode": "direct", "ca_file": str(self.folder / "cert.pem")}
        return {
            "sender_id": "worker", "host": "127.0.0.1", "port": self.ports[1], "domain": DOMAIN, "dialect": "xmpp",
            "secret_file": str(self.folder / "secret"), "trusted_from": [f"devices@{DOMAIN}"], "tls": tls, **keys,
        }

    def statement(self, database, text):
        command = ["psql", "-h", self.folder / "pg", "-U", "upstream", "-At", "-d", database, "-c", text]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def stored(self, database):
        return int(self.statement(database, "SELECT count(*) FROM upstream.messages"))

    def measure(self, name, server, worker, database, run):
        before = time.monotonic(), cpu(server.pid), cpu(worker.pid), family_cpu(self.postgres.pid), time.process_time()
        run()
        after = time.monotonic(), cpu(server.pid), cpu(worker.pid), family_cpu(self.postgres.pid), time.process_time()
        took, *times = (b - a for a, b in zip(before, after))
        if (stored := self.stored(database)) != self.messages:
            sys.exit(f"{name}: {stored} stored of {self.messages}")
        return {"rate": self.messages / took, "took": took, "times": times}

    def standard(self, kind, dialect):
        server = self.server(kind)
        sender, address = self.account(), f"worker@{DOMAIN}"
        if dialect == "component":
            sender |= COMPONENT | {"port": self.ports[2], "domain": f"upstream.{DOMAIN}", "dialect": dialect}
            address = f"orders@upstream.{DOMAIN}"
        worker, log, database = self.worker(kind, sender)
        wait_for("the stream is bound", lambda: "stream.bound" in self.logged(log))
        device = Device(self.ports[1], self.folder / "cert.pem")
        result = self.measure(kind, server, worker, database, lambda: device.run(self.messages, address))
        device.close()
        self.end(worker)
        self.end(server)
        return result

    def emulator(self):
        authority = self.folder / "emulator-ca.pem"
        port = self.ports[5]
        command = [WORKER, "emulate", "--listen", f"127.0.0.1:{port}", "--write-ca", authority, "--count", self.messages]
        server = self.spawn(command, "emulator.out")
        wait_for("the emulator", lambda: authority.exists() and authority.stat().st_size)
        worker, log, database = self.worker(
            "emulator",
            {
                "sender_id": "1234567890", "host": "127.0.0.1", "port": port, "domain": "gcm.googleapis.com",
                "connections": 1, "secret_file": str(self.folder / "secret"),
                "tls": {"mode": "direct", "ca_file": str(authority)},
            },
        )
        # Its own figures start at the bind and would end after the last ack, so we look at the table.
        wait_for("the stream is bound", lambda: "stream.bound" in self.logged(log))
        times = {}

        def run():
            while server.poll() is None:
                try:
                    times["server"] = cpu(server.pid)
                except (FileNotFoundError, ProcessLookupError):
                    break
                time.sleep(0.005)

        before = time.monotonic(), cpu(worker.pid), family_cpu(self.postgres.pid)
        run()
        after = time.monotonic(), cpu(worker.pid), family_cpu(self.postgres.pid)
        took, worker_cpu, postgres_cpu = (b - a for a, b in zip(before, after))
        self.processes.remove(server)
        self.end(worker)
        if (stored := self.stored(database)) != self.messages:
            sys.exit(f"emulator: {stored} stored of {self.messages}")
        authority.unlink()
        return {"rate": self.messages / took, "took": took, "times": [times["server"], worker_cpu, postgres_cpu, 0.0]}


class Device:
    """An account that sends as fast as its acks come, over TLS."""

    def __init__(self, port, authority):
        context = ssl.create_default_context(cafile=authority)
        plain = socket.create_connection(("127.0.0.1", port))
        # Else a message waits for the acknowledgement of the packet before it, up to 40 ms.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname=DOMAIN)
        self.open(b"</stream:features>")
        self.say(
            b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>"
            + base64.b64encode(b"\0devices\0" + SECRET.encode()) + b"</auth>", b"<success",
        )
        self.open(b"</stream:features>")
        self.say(b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", b"</iq>")

    def open(self, answer):
        self.say(
            f"<stream:stream to='{DOMAIN}' version='1.0' xmlns='jabber:client' "
            "xmlns:stream='http://etherx.jabber.org/streams'>".encode(), answer,
        )

    def say(self, text, answer):
        self.socket.sendall(text)
        heard = b""
        while answer not in heard:
            part = self.socket.recv(65536)
            if not part:
                sys.exit(f"the server ends the device's stream: {heard!r}")
            heard += part

    def run(self, count, address):
        filling = "x" * 280
        acked, window = 0, threading.Semaphore(UNDER_WAY)

        def write():
            for first in range(0, count, 20):
                size = min(20, count - first)
                for _ in range(size):
                    window.acquire()
                self.socket.sendall("".join(
                    f"<message to='{address}'><gcm xmlns='google:mobile:data'>"
                    f'{{"message_id":"m{n}","from":"FAKE-token-{n % 1000}","category":"com.example.app","data":{{"n":"{n}",'
                    f'"text":"{filling}"}},"time_to_live":86400}}</gcm></message>'
                    for n in range(first, first + size)
                ).encode())

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        end, tail = b"</message>", b""
        while acked < count:
            part = self.socket.recv(262144)
            if not part:
                sys.exit("the server has ended the device's stream")
            text = tail + part
            found = text.count(end)
            tail = text[-(len(end) - 1):]
            if b"type='error'" in text or b'type="error"' in text:
                sys.exit(f"an error came back: {text[:600]!r}")
            acked += found
            window.release(found) if found else None
        writer.join()

    def close(self):
        self.socket.close()


class PacedDevice(Device):
    """A device that sends so many messages a second, whatever comes back, and notes what does."""

    STANZA = re.compile(r"<message[ >].*?</message>", re.S)

    def __init__(self, port, authority):
        super().__init__(port, authority)
        # When each was sent, and acked, by its id; and what the server returned.
        self.sent, self.acked, self.returned = {}, {}, set()
        threading.Thread(target=self.listen, daemon=True).start()

    def send(self, ids, address, rate):
        begun = time.monotonic()
        for number, id in enumerate(ids):
            time.sleep(max(0, begun + number / rate - time.monotonic()))
            self.sent[id] = time.monotonic()
            self.socket.sendall(
                f"<message to='{address}' id='{id}'><gcm xmlns='google:mobile:data'>"
                f'{{"message_id":"{id}","from":"FAKE-token","category":"com.example.app","data":{{"n":"{id}"}}}}</gcm>'
                "<store xmlns='urn:xmpp:hints'/></message>".encode()
            )

    def listen(self):
        text = ""
        while part := self.socket.recv(262144):
            text += part.decode(errors="replace")
            end, now = 0, time.monotonic()
            for stanza in self.STANZA.finditer(text):
                end, body = stanza.end(), html.unescape(stanza[0])
                if re.match(r"<message[^>]* type=['\"]error", body):
                    self.returned.add(re.search(r" id=['\"]([^'\"]*)", body)[1])
                elif id := re.search(r'"message_id":"([^"]*)"', body):
                    self.acked.setdefault(id[1], now)
            text = text[end:]

    def p99s(self, ids, piece):
        """Of the times from sending to the ack, in ms: the 99th percentile of each piece of so many messages."""
        times = [(self.acked[id] - self.sent[id]) * 1000 for id in ids]
        pieces = [sorted(times[n : n + piece]) for n in range(0, max(1, len(times) - piece + 1), piece)]
        return [some[len(some) * 99 // 100] for some in pieces]


# Settings of a worker attached as a component, besides host, port and domain.
COMPONENT = {"tls": {"mode": "none"}}


def run(body, messages=0):
    """Runs a function with a bench, and removes all that is left of it."""
    if not WORKER.exists():
        sys.exit("make release first")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="upstream-servers-"))
    folder.chmod(0o755)
    bench = Bench(folder, messages)
    # Ends what it has started, however it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        bench.database()
        return body(bench)
    finally:
        for process in reversed(bench.processes):
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    ways = {
        "emulator": Bench.emulator,
        "Prosody, account": lambda bench: bench.standard("Prosody", "xmpp"),
        "ejabberd, account": lambda bench: bench.standard("ejabberd", "xmpp"),
        "Prosody, component": lambda bench: bench.standard("Prosody", "component"),
        "ejabberd, component": lambda bench: bench.standard("ejabberd", "component"),
    }
    ways = {way: measure for way, measure in ways.items() if way == "emulator" or wanted in way}
    results = {way: [] for way in ways}

    def take_turns(bench):
        for _ in range(rounds):
            for way, measure in ways.items():
                results[way].append(measure(bench))
                shutil.rmtree(bench.folder / "ejabberd", ignore_errors=True)
                shutil.rmtree(bench.folder / "Prosody", ignore_errors=True)

    run(take_turns, messages)
    print(f"{messages} messages, {rounds} rounds in turns; medians; processor time in µs per message, (cores in use)")
    print("| through | msg/s | to the emulator | server | worker | PostgreSQL | device |")
    print("|---|---|---|---|---|---|---|")
    for way, runs in results.items():
        rate = statistics.median(r["rate"] for r in runs)
        ratio = statistics.median(r["rate"] / e["rate"] for r, e in zip(runs, results["emulator"]))
        cells = [
            f"{statistics.median(r['times'][i] for r in runs) / messages * 1e6:.0f} "
            f"({statistics.median(r['times'][i] / r['took'] for r in runs):.2f})"
            for i in range(4)
        ]
        print(f"| {way} | {rate:,.0f} | {ratio:.2f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
