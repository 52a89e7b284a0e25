"""The servers that the plugins are tested with, each on the loopback address with a folder of its own.

What a server holds is read as records: its own key (Kafka's key, Nats-Msg-Id, message_id), its headers and the payload.
"""
import base64
import collections
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

USER, PASSWORD = "worker", "FAKE-password-for-plugins"
NAME = "upstream.orders"

Record = collections.namedtuple("Record", "key headers payload")


def read_records(data):
    """Records of the programs in C: key=…␟name=value…␞payload, one a line."""
    for line in data.split(b"\n")[:-1]:
        head, payload = line.split(b"\x1e", 1)
        fields = [field.decode().split("=", 1) for field in head.split(b"\x1f")]
        yield Record(fields[0][1], dict(fields[1:]), payload)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(folder):
    """A certificate for localhost that is its own authority: ca.pem, and key.pem."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{folder}/key.pem",
         "-out", f"{folder}/ca.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    os.chmod(f"{folder}/key.pem", 0o644)


class Server:
    """A server's process and its children, started and ended by their ids."""

    process = None

    def launch(self, command, **options):
        # Nothing of it outlives a test that hangs.
        with open(f"{self.folder}/log", "a") as log:
            self.process = subprocess.Popen(
                ["timeout", "--foreground", "--signal=KILL", "3600", *command],
                **{"stdout": log, "stderr": log, "start_new_session": True, **options},
            )  # fmt: skip

    def wait_for_port(self, port, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise RuntimeError(f"{type(self).__name__} doesn't start: {open(f'{self.folder}/log').read()[-2000:]}")

    def kill(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()

    stop = kill

    def freeze(self):
        """Returns once no thread of it runs any more: it could still answer."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        while set(self.states()) - set("TZX"):
            time.sleep(0.01)

    def thaw(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def states(self):
        """The states of all threads of its process group."""
        for path in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
            try:
                with open(path) as file:
                    state, _, group = file.read().rsplit(")", 1)[1].split()[:3]
            except OSError:
                continue
            if int(group) == self.process.pid:
                yield state

    def start_or_stop(self):
        """Nothing is left of a server that can't be used."""
        try:
            self.start()
            self.prepare()
        except BaseException:
            self.stop()
            raise

    def prepare(self):
        pass

    def restart(self):
        self.kill()
        # The children may still be ending.
        while socket.socket().connect_ex(("127.0.0.1", self.port)) == 0:
            time.sleep(0.05)
        self.start()


class Nats(Server):
    """nats-server with JetStream, TLS and a password. Streams: ORDERS takes upstream.>, SMALL small.> up to 600 bytes."""

    def __init__(self, folder):
        self.folder, self.port = f"{folder}/nats", free_port()
        os.mkdir(self.folder)
        with open(f"{self.folder}/server.conf", "w") as file:
            file.write(
                f"""listen: "127.0.0.1:{self.port}"
max_payload: 512KB
jetstream {{store_dir: "{self.folder}/store"}}
tls {{cert_file: "{folder}/ca.pem", key_file: "{folder}/key.pem"}}
authorization {{users: [
  {{user: "{USER}", password: "{PASSWORD}", permissions: {{
    publish: {{allow: ["upstream.>", "small.>", "nowhere.>"]}}, subscribe: "_INBOX.>"
  }}}},
  {{user: "admin", password: "{PASSWORD}"}}
]}}
"""
            )
        self.authority = f"{folder}/ca.pem"
        self.start_or_stop()

    def prepare(self):
        for stream in ({"name": "ORDERS", "subjects": ["upstream.>"]}, {"name": "SMALL", "subjects": ["small.>"], "max_msg_size": 600}):
            self.request(f"STREAM.CREATE.{stream['name']}", {**stream, "storage": "file", "retention": "limits"})

    def start(self):
        self.launch(["nats-server", "-c", f"{self.folder}/server.conf"])
        self.wait_for_port(self.port, 30)

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), 20)
        plain.recv(65536)  # INFO
        context = ssl.create_default_context(cafile=self.authority)
        stream = context.wrap_socket(plain, server_hostname="localhost")
        options = {"verbose": False, "pedantic": False, "headers": True, "user": "admin", "pass": PASSWORD, "tls_required": True}
        stream.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\n")
        return stream, stream.makefile("rb")

    def read(self, stream, lines):
        """The next message: its headers and payload."""
        while True:
            words = lines.readline().decode().split()
            if not words or words[0] == "-ERR":
                raise RuntimeError(f"nats-server: {words}")
            if words[0] == "PING":
                stream.sendall(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                body = lines.read(int(words[-1]) + 2)[:-2]
                size = int(words[-2]) if words[0] == "HMSG" else 0
                pairs = [line.split(":", 1) for line in body[:size].decode().split("\r\n")[1:] if line]
                return {name: value.strip() for name, value in pairs}, body[size:]

    def request(self, name, body):
        stream, lines = self.connect()
        text = json.dumps(body).encode()
        stream.sendall(b"SUB test.answer 1\r\nPUB $JS.API.%s test.answer %d\r\n%s\r\n" % (name.encode(), len(text), text))
        answer = json.loads(self.read(stream, lines)[1])
        stream.close()
        if "error" in answer:
            raise RuntimeError(f"{name}: {answer['error']}")
        return answer

    def records(self):
        count = self.request("STREAM.INFO.ORDERS", {})["state"]["messages"]
        stream, lines = self.connect()
        consumer = {"stream_name": "ORDERS", "config": {
            "deliver_subject": "test.records", "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant"}}  # fmt: skip
        text = json.dumps(consumer).encode()
        stream.sendall(b"SUB test.records 1\r\nPUB $JS.API.CONSUMER.CREATE.ORDERS %d\r\n%s\r\n" % (len(text), text))
        for _ in range(count):
            headers, payload = self.read(stream, lines)
            yield Record(headers.pop("Nats-Msg-Id"), headers, payload)
        stream.close()


class Rabbit(Server):
    """rabbitmq-server with TLS, its plain port for reading, and an epmd of its own."""

    def __init__(self, folder, drain):
        self.folder, self.drain = f"{folder}/rabbit", drain
        self.port, self.plain_port, self.node_port, self.epmd_port = (free_port() for _ in range(4))
        os.mkdir(self.folder)
        salt = b"salt"
        digest = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()
        queues = {"orders": {}, "full": {"x-max-length": 1, "x-overflow": "reject-publish"}}
        exchanges = ("orders", "private")
        bindings = (("upstream.#", "orders"), ("full", "full"))
        definitions = {
            "users": [{"name": USER, "password_hash": digest, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}],
            "vhosts": [{"name": "/"}],
            "permissions": [{"user": USER, "vhost": "/", "configure": "", "write": "^(orders|amq.default)$", "read": ".*"}],
            "exchanges": [
                {"name": name, "vhost": "/", "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
                for name in exchanges
            ],
            "queues": [
                {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
                for name, arguments in queues.items()
            ],
            "bindings": [
                {"source": "orders", "vhost": "/", "destination": queue, "destination_type": "queue", "routing_key": key, "arguments": {}}
                for key, queue in bindings
            ],
        }
        with open(f"{self.folder}/definitions.json", "w") as file:
            json.dump(definitions, file)
        with open(f"{self.folder}/rabbitmq.conf", "w") as file:
            file.write(
                f"""listeners.tcp.1 = 127.0.0.1:{self.plain_port}
listeners.ssl.1 = 127.0.0.1:{self.port}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/ca.pem
ssl_options.keyfile = {folder}/key.pem
load_definitions = {self.folder}/definitions.json
max_message_size = 300000
log.console = true
log.console.level = warning
"""
            )
        self.as_user = []
        if os.getuid() == 0:
            self.as_user = ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--init-groups"]
            shutil.chown(self.folder, "rabbitmq", "rabbitmq")
        self.epmd = Server()
        self.epmd.folder = self.folder
        self.epmd.launch([*self.as_user, "epmd", "-port", str(self.epmd_port), "-address", "127.0.0.1"], cwd="/")
        self.start_or_stop()

    def start(self):
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.folder, "LANG": "C.UTF-8", "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": f"plugins{self.epmd_port}@localhost", "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf", "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/none",
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/data", "RABBITMQ_LOG_BASE": f"{self.folder}/logs", "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/enabled", "RABBITMQ_PID_FILE": f"{self.folder}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        }  # fmt: skip
        self.launch([*self.as_user, "/usr/lib/rabbitmq/bin/rabbitmq-server"], env=environment, cwd="/")
        self.wait_for_port(self.port, 120)

    def stop(self):
        self.kill()
        self.epmd.kill()

    def records(self):
        return read_records(self.take("orders"))

    def take(self, queue):
        command = [self.drain, str(self.plain_port), USER, PASSWORD, queue]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


class Kafka(Server):
    """librdkafka's cluster in memory of three brokers: those restart, their process doesn't."""

    def __init__(self, folder, program):
        self.folder, self.file = f"{folder}/kafka", f"{folder}/kafka/records"
        self.command = [program, NAME, self.file]
        os.mkdir(self.folder)
        self.start_or_stop()

    def start(self):
        self.launch(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.brokers = self.process.stdout.readline().strip()
        if not re.fullmatch(r"(127\.0\.0\.1:\d+,?){3}", self.brokers):
            raise RuntimeError(f"kafka_broker doesn't start: {self.brokers}")

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def restart(self):
        """Two of three at a time: whichever leads a partition, some of them are away."""
        for number in (1, 2):
            self.tell(f"down {number}")
        time.sleep(2)
        for number in (1, 2):
            self.tell(f"up {number}")

    def records(self):
        self.tell("end")
        if self.process.stdout.readline().strip() != "ended":
            raise RuntimeError("kafka_broker has ended")
        with open(self.file, "rb") as file:
            return read_records(file.read())
