"""What the chaos run happens to: a private PostgreSQL, workers that are started again, and the emulator."""
import collections
import glob
import os
import re
import shutil
import signal
import subprocess
import time

SENDER = "1234567890"


def wire_faults(rate):
    """The emulator's faults for so many messages a second.

    Streams end every few seconds in all: a stream that lasts less than ten seconds makes the worker wait before the next.
    Odd messages are few: those without a usable id are never acked, so they come again and take their places in the window.
    """
    return (
        "every 97: duplicate; every 211: redeliver; every 307: torn; every 499: conflict; every 9973: odd-json; "
        f"every {7 * rate}: drain; every {9 * rate + 1}: close-before-ack; every {11 * rate + 2}: cut; every {13 * rate + 3}: reset"
    )


def as_postgres():
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        if os.getuid() == 0:
            os.chmod(folder, 0o755)
        os.mkdir(f"{folder}/db")
        if os.getuid() == 0:
            shutil.chown(f"{folder}/db", "postgres", "postgres")
        self.data, self.socket = f"{folder}/db/data", f"{folder}/db"
        self.call("initdb", "-D", self.data, "-U", "upstream", "-A", "trust", "-E", "UTF8", "--locale=C")
        with open(f"{folder}/postgresql.conf", "w") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.socket}'\nmax_connections = 60\n")
        with open(f"{folder}/postgresql.conf") as source, open(f"{self.data}/postgresql.auto.conf", "a") as target:
            target.write(source.read())
        self.start()
        self.query("CREATE DATABASE upstream", "postgres")

    def call(self, program, *arguments, check=True):
        command = [*as_postgres(), f"{self.bin}/{program}", *arguments]
        with open(f"{self.folder}/pg_ctl.log", "a") as log:
            return subprocess.run(command, check=check, stdout=log, stderr=log, cwd="/", timeout=180)

    def start(self):
        self.call("pg_ctl", "-D", self.data, "-w", "-t", "120", "-l", f"{self.socket}/log", "start")

    def stop(self, mode):
        self.call("pg_ctl", "-D", self.data, "-w", "-t", "60", "-m", mode, "stop", check=False)

    def processes(self):
        """The postmaster and its children."""
        with open(f"{self.data}/postmaster.pid") as file:
            master = int(file.readline())
        with open(f"/proc/{master}/task/{master}/children") as file:
            return [master, *map(int, file.read().split())]

    @property
    def url(self):
        return f"postgresql://upstream@/upstream?host={self.socket}"

    def query(self, text, database="upstream", check=True):
        """Rows of unaligned text."""
        url = f"postgresql://upstream@/{database}?host={self.socket}"
        done = subprocess.run(
            ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", url], input=text, capture_output=True, text=True
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.splitlines()


class Worker:
    """One worker that is started again whenever it has ended."""

    def __init__(self, program, configuration, log):
        self.command = [program, "run", "--config", configuration]
        self.log = open(log, "a")
        self.starts = 0
        self.refused = collections.Counter()
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        self.starts += 1

    def keep(self):
        code = self.process.poll()
        if code is not None:
            self.refused[code] += code not in (0, -signal.SIGKILL)
            self.start()

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self):
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def wait_until(what, condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise RuntimeError(f"waited {seconds} s for {what}")


def configuration(folder, number, cluster, port, connections=3, writers=2, handler="sql: {function: app.take}"):
    path = f"{folder}/worker-{number}.yaml"
    with open(path, "w") as file:
        file.write(
            f"""database: {{url: "{cluster.url}", writers: {writers}}}
senders:
  - sender_id: "{SENDER}"
    host: 127.0.0.1
    port: {port}
    domain: gcm.googleapis.com
    connections: {connections}
    secret_file: {folder}/secret
    tls: {{ca_file: {folder}/ca.pem}}
handlers:
  - {{name: taken, categories: ["*"], {handler}}}
admin: {{listen: off}}
log: {{level: warning}}
"""
        )
    return path


def start_worker(program, path, roles, log):
    """A worker of these roles with this configuration."""
    command = [program, "run", "--config", path, "--roles", roles]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


def start_emulator(program, folder, *options):
    """An emulator with these options; returns its process and its port."""
    with open(f"{folder}/secret", "w") as file:
        file.write("FAKE-secret-for-chaos")
    os.chmod(f"{folder}/secret", 0o600)
    command = [
        program, "emulate", "--listen", "127.0.0.1:0", "--write-ca", f"{folder}/ca.pem", "--sender-id", SENDER,
        "--secret-file", f"{folder}/secret", "--json", *map(str, options),
    ]  # fmt: skip
    log = open(f"{folder}/emulator.log", "w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    pattern = re.compile(r"127\.0\.0\.1:(\d+)")
    wait_until("the emulator's port", lambda: pattern.search(open(f"{folder}/emulator.log").read()), 30)
    return process, pattern.search(open(f"{folder}/emulator.log").read()).group(1)
