"""What the plugins make of configurations and of single messages: outcomes, reasons, and what the server then holds."""
import threading
import time

from fakes import FakeStream, SlowNetwork
from library import TOKEN, handle, message, open_error
from servers import PASSWORD, USER

# The shortest time limit, so that silent servers cost little.
TIMEOUT = 2


class Findings:
    def __init__(self):
        self.wrong = []
        self.checked = 0

    def expect(self, name, got, expected):
        self.checked += 1
        if got != expected:
            self.wrong.append(f"{name}: {got!r}, expected {expected!r}")

    def expect_text(self, name, text, part):
        self.checked += 1
        if part not in (text or ""):
            self.wrong.append(f"{name}: {text!r} without {part!r}")


def kinds(path, configuration, batches, log):
    """Of each batch whether the call succeeded, and its outcomes."""
    return [(works, outcomes) for works, outcomes, _ in handle(path, configuration, batches, log)]


def check_configurations(findings, name, path, required, template, folder, log):
    """`required` are lines that make a valid configuration, without the template's key."""
    valid = f"{required}\n{template} = upstream.{{category}}\ntls = off\n# a comment\n"
    cases = {
        "": "is missing; the keys are tls, ca_file,",
        f"{valid}colour = red\n": "unknown key 'colour'; the keys are tls, ca_file,",
        f"{valid}tls = off\n": "key 'tls' appears twice",
        f"{valid}nonsense\n": "is no 'key = value'",
        f"{required}\n": f"key '{template}' is missing",
        f"{required}\n{template} = {{category}}\n": "must not begin with {category}",
        f"{required}\n{template} = a.{{device}}\n": f"{template} may hold letters",
        f"{required}\n{template} = a..b\n": f"{template} has an empty word",
        f"{valid}".replace("tls = off", "tls = maybe"): "tls must be on or off",
        f"{valid}timeout = 0s\n": "timeout must be 1s to 600s",
        f"{valid}certificate_file = {folder}/ca.pem\n": "certificate_file and key_file go together",
        f"{valid}".replace("tls = off", f"ca_file = {folder}/none"): f"cannot read ca_file '{folder}/none'",
    }
    if "user" not in required:
        cases[f"{valid}user = worker\n"] = "user and password_file go together"
        cases[f"{valid}user = worker\npassword_file = {folder}/none\n"] = f"cannot read password_file '{folder}/none'"
    for configuration, part in cases.items():
        findings.expect_text(f"{name}, configuration {configuration!r}", open_error(path, configuration, log), part)
    with open(f"{folder}/settings", "w") as file:
        file.write(valid)
    lines = "; ".join(line for line in valid.splitlines() if not line.startswith("#"))
    for configuration in (valid, lines, f"{lines};", f"{folder}/settings"):
        findings.expect(f"{name}, configuration {configuration!r}", open_error(path, configuration, log), None)
    with open(f"{folder}/empty", "w"):
        findings.expect_text(f"{name}, an empty file", open_error(path, f"{folder}/empty", log), "is missing; the keys are tls,")
    findings.expect_text(f"{name}, no file", open_error(path, f"{folder}/none", log), f"cannot read '{folder}/none': No such file")


def odd_messages(largest):
    """Messages that must not disturb each other, and their outcomes."""
    odd = [
        (message(), "done"),
        (message(category="a.b > *"), "reject"),
        (message(category="orders\0.x"), "reject"),
        (message(category="é" * 127), "reject"),
        (message(category="x" * 300), "reject"),
        (message(category=".."), "reject"),
        (message(category="$JS.API.STREAM.DELETE.ORDERS"), "reject"),
        (message(category=""), "reject"),
        (message(message_id="a\r\nNats-Msg-Id: stolen\r\n\r\n"), "done"),
        (message(message_id="x" * 4000), "done"),
        (message(data="x" * largest), "reject"),
        (message(data=None, message_type="receipt", replay_id="11111111-1111-1111-1111-111111111111"), "done"),
        (message(sender_id="devices@example.com"), "done"),
        (message(), "done"),
    ]
    return [values for values, _ in odd], [kind for _, kind in odd]


def check_records(findings, name, server, messages, expected):
    """What the server holds of them: the payload as it was, only known headers, and no token."""
    known = {"message_key", "message_id", "category", "sender_id", "device_key", "received_at", "message_type", "replay_id",
             "traceparent", "tracestate", "mode"}  # fmt: skip
    records = {record.headers["message_key"]: record for record in server.records()}
    for values, kind in zip(messages, expected):
        record = records.get(values["message_key"])
        findings.expect(f"{name}, the server has {values['message_id']!r}", record is not None, kind == "done")
        if record is None:
            continue
        findings.expect(f"{name}, payload", record.payload, (values["data"] or "").encode())
        findings.expect(f"{name}, headers", record.headers.keys() - known, set())
        findings.expect(f"{name}, the token", TOKEN in repr(record), False)
        own = values["device_key"] if name == "kafka" else values["message_key"]
        findings.expect(f"{name}, the record's key", record.key, own)
        is_plain = len(values["message_id"]) < 100 and "\n" not in values["message_id"]
        findings.expect(f"{name}, message_id", record.headers.get("message_id"), values["message_id"] if is_plain else None)
        findings.expect(f"{name}, received_at", record.headers["received_at"], "2023-11-14T22:13:20.123456Z")
        findings.expect(f"{name}, replay_id", record.headers.get("replay_id"), values.get("replay_id"))
        findings.expect(f"{name}, traceparent", record.headers.get("traceparent"), values["traceparent"])


def check_silence(findings, name, path, configuration, server, messages, log):
    """A server that accepts and never acks: nothing is done, and the call ends in time."""
    begin = time.monotonic()
    try:
        answers = kinds(path, configuration, [[message()], server.freeze, messages], log)
    finally:
        server.thaw()
    findings.expect(f"{name}, a silent server", answers, [(True, ["done"]), (False, ["unset"] * len(messages))])
    findings.expect(f"{name}, a silent server ends the call in time", time.monotonic() - begin < TIMEOUT + 6, True)


def check_late_acks(findings, name, path, configuration, server, log, batch, expected, tries=1):
    """Acks that come after their call has ended say nothing about the next call's messages. A plugin that must connect again
    first has two tries."""
    # One of the first call is settled at once: the connection isn't taken for dead, and remains.
    late = [message(category=".."), *[message() for _ in batch[1:]]]
    # They come during the next call.
    thaw_soon = lambda: threading.Timer(0.3, server.thaw).start()  # noqa: E731
    try:
        batches = [[message()], server.freeze, late, thaw_soon, *[batch] * tries]
        answers = kinds(path, configuration, batches, log)
    finally:
        server.thaw()
    unset = ["reject"] + ["unset"] * (len(batch) - 1)
    findings.expect(f"{name}, late acks", [*answers[:2], answers[-1]], [(True, ["done"]), (False, unset), (True, expected)])
    for _, got in answers[2:-1]:
        wrong = [kind for kind, right in zip(got, expected) if kind not in (right, "unset")]
        findings.expect(f"{name}, late acks, first try", wrong, [])


def check_nats(findings, path, server, folder, log):
    def configuration(subject, host="localhost", password="password", authority="ca.pem", port=server.port):
        return (f"servers = {host}:{port}\nsubject = {subject}\nuser = {USER}\npassword_file = {folder}/{password}\n"
                f"ca_file = {folder}/{authority}\ntimeout = {TIMEOUT}s\n")  # fmt: skip

    messages, expected = odd_messages(600_000)
    answers = kinds(path, configuration("upstream.{sender}.{category}"), [messages], log)
    findings.expect("nats, odd messages", answers, [(True, expected)])
    check_records(findings, "nats", server, messages, expected)
    cases = {
        "small.{category}": ([message(), message(data="x" * 700), message()], (True, ["done", "reject", "done"])),
        # A subject without a stream, or forbidden: the configuration's fault, unless devices choose it.
        "nowhere.orders": ([message()], (False, ["unset"])),
        "nowhere.{category}": ([message(), message()], (True, ["retry", "retry"])),
        "private.orders": ([message()], (False, ["unset"])),
        "private.{category}": ([message(), message()], (True, ["retry", "retry"])),
    }
    for subject, (batch, answer) in cases.items():
        findings.expect(f"nats, subject {subject}", kinds(path, configuration(subject), [batch], log), [answer])
    # The server's errors quote the subject, and the library cuts them off.
    for length, kind in ((192, "retry"), (193, "reject")):
        answers = kinds(path, configuration("private.{category}"), [[message(category="x" * length)]], log)
        findings.expect(f"nats, a category of {length} bytes", answers, [(True, [kind])])
    check_nats_limits(findings, path, configuration, server, log)
    check_slow_nats(findings, path, configuration, server, log)
    refused = {"another name than the certificate's": {"host": "127.0.0.1"}, "a wrong password": {"password": "wrong"},
               "another authority": {"authority": "other/ca.pem"}}  # fmt: skip
    for what, change in refused.items():
        findings.expect(f"nats, {what}", kinds(path, configuration("upstream.x", **change), [[message()]], log), [(False, ["unset"])])
    check_silence(findings, "nats", path, configuration("upstream.x"), server, [message(data="x" * 9000) for _ in range(900)], log)
    large = [message(data="x" * 700) for _ in range(5)]
    check_late_acks(findings, "nats", path, configuration("small.{category}"), server, log, large, ["reject"] * 5)


def check_nats_limits(findings, path, configuration, server, log):
    """Errors that say nothing about the message count as no attempt."""
    cases = {
        (400, 10002, "resource limits exceeded for account"): (False, ["unset"]),
        (429, 10167, "too many requests"): (False, ["unset"]),
        (500, 10049, "stream not valid"): (False, ["unset"]),
        (503, 10077, "maximum messages exceeded"): (False, ["unset"]),
        (503, 10077, "maximum messages per subject exceeded"): (True, ["retry"]),
        (400, 10060, "expected stream does not match"): (True, ["retry"]),
    }
    errors = {
        f"nowhere.fake.{number}": {"code": code, "err_code": own, "description": text}
        for number, (code, own, text) in enumerate(cases)
    }
    with FakeStream(server, "nowhere.fake.*", errors):
        for subject, (error, answer) in zip(errors, cases.items()):
            findings.expect(f"nats, error {error}", kinds(path, configuration(subject), [[message()]], log), [answer])


def check_slow_nats(findings, path, configuration, server, log):
    """A server that takes each message in time, but not all of them."""
    with SlowNetwork(server.port, 1_200_000) as network:
        begin = time.monotonic()
        messages = [message(data="x" * 100_000) for _ in range(200)]
        (works, _), = kinds(path, configuration("upstream.x", port=network.port), [messages], log)
        seconds = time.monotonic() - begin
    findings.expect("nats, a slow server", works, False)
    findings.expect(f"nats, a slow server ends the call in time ({seconds:.1f} s)", seconds < 2 * TIMEOUT + 4, True)


def check_amqp(findings, path, server, folder, log):
    def configuration(key, host="localhost", password="password", exchange="orders", authority="ca.pem"):
        return (f"servers = {host}:{server.port}\nexchange = {exchange}\nrouting_key = {key}\nuser = {USER}\n"
                f"password_file = {folder}/{password}\nca_file = {folder}/{authority}\ntimeout = {TIMEOUT}s\n")  # fmt: skip

    messages, expected = odd_messages(400_000)
    answers = kinds(path, configuration("upstream.{sender}.{category}"), [messages, [message()]], log)
    findings.expect("amqp, odd messages", answers, [(True, expected), (True, ["done"])])
    check_records(findings, "amqp", server, messages, expected)
    three = [message(), message(), message()]
    cases = {
        ("nowhere", "orders"): (True, ["reject"] * 3),
        ("full", "orders"): (True, ["done", "retry", "retry"]),
        # No such exchange, or no right to it.
        ("upstream.x", "orders-none"): (False, ["unset"] * 3),
        ("upstream.x", "private"): (False, ["unset"] * 3),
        ("upstream.{category}", "private"): (True, ["retry"] * 3),
    }
    for (key, exchange), answer in cases.items():
        got = kinds(path, configuration(key, exchange=exchange), [three], log)
        findings.expect(f"amqp, exchange {exchange}, key {key}", got, [answer])
    refused = {"another name than the certificate's": {"host": "127.0.0.1"}, "a wrong password": {"password": "wrong"},
               "another authority": {"authority": "other/ca.pem"}}  # fmt: skip
    for what, change in refused.items():
        findings.expect(f"amqp, {what}", kinds(path, configuration("upstream.x", **change), [[message()]], log), [(False, ["unset"])])
    check_silence(findings, "amqp", path, configuration("upstream.x"), server, [message(data="x" * 9000) for _ in range(900)], log)
    mixed, expected = [message(data="x" * 400_000), message(data="x" * 400_000), message()], ["reject", "reject", "done"]
    check_late_acks(findings, "amqp", path, configuration("upstream.{category}"), server, log, mixed, expected, tries=2)


def check_kafka(findings, path, server, folder, log):
    def configuration(topic):
        return f"brokers = {server.brokers}\ntopic = {topic}\ntls = off\ntimeout = {TIMEOUT}s\n"

    # The cluster in memory knows neither TLS nor passwords: the library takes the settings, and nothing is done.
    secure = configuration("upstream.orders").replace("tls = off", f"ca_file = {folder}/ca.pem")
    secure += f"user = {USER}\npassword_file = {folder}/password\n"
    findings.expect("kafka, TLS and a password", kinds(path, secure, [[message()]], log), [(False, ["unset"])])
    findings.expect_text("kafka, mechanism", open_error(path, f"{secure}mechanism = NONE\n", log), "NONE")
    findings.expect_text("kafka, compression", open_error(path, f"{secure}compression = best\n", log), "compression")

    def told(line):
        return lambda: server.tell(line)

    # Orders' topic is the one whose records are read.
    messages, expected = odd_messages(1_200_000)
    answers = kinds(path, configuration("upstream.{category}"), [messages], log)
    findings.expect("kafka, odd messages", answers, [(True, expected)])
    check_records(findings, "kafka", server, messages, expected)
    one, two = [message()], [message(), message()]
    produce, too_large, old_epoch = 0, 10, 47
    cases = {
        # Of the batch, then of one message alone.
        "a batch too large": ("upstream.orders", [told(f"error {produce} {too_large}"), one], [(True, ["done"])]),
        "a message too large": (
            "upstream.orders", [told(f"error {produce} {too_large}"), told(f"error {produce} {too_large}"), one], [(True, ["reject"])]
        ),
        # The producer is made again.
        "a fatal error": ("upstream.orders", [told(f"error {produce} {old_epoch}"), one, two], None),
        "a forbidden topic": ("upstream.denied", [told("topic upstream.denied 29"), one], [(False, ["unset"])]),
        "an unknown topic": ("upstream.unknown", [told("topic upstream.unknown 3"), one], [(False, ["unset"])]),
        "a category's forbidden topic": (
            "upstream.{category}", [[message(category="denied"), message()]], [(True, ["retry", "done"])]
        ),
    }  # fmt: skip
    for what, (topic, batches, answer) in cases.items():
        got = kinds(path, configuration(topic), batches, log)
        if answer is None:
            answer = [(False, ["unset"]), (True, ["done", "done"])]
        findings.expect(f"kafka, {what}", got, answer)
    # A producer that may not be idempotent knows it before the first message, and is made again.
    identify, forbidden = 22, 31
    server.tell(f"error {identify} {forbidden}")
    got = kinds(path, configuration("upstream.orders"), [lambda: time.sleep(2), one, two], log)
    findings.expect("kafka, a fatal error before the first message", got, [(False, ["unset"]), (True, ["done", "done"])])
    check_silence(findings, "kafka", path, configuration("upstream.orders"), server, [message() for _ in range(900)], log)
    mixed, expected = [message(data="x" * 1_200_000), message(data="x" * 1_200_000), message()], ["reject", "reject", "done"]
    check_late_acks(findings, "kafka", path, configuration("upstream.{category}"), server, log, mixed, expected, tries=2)


def check_log(findings, text):
    """Nothing secret was written, and no trouble over and over."""
    for name, secret in (("password", PASSWORD), ("token", TOKEN), ("payload", '"item"')):
        findings.expect(f"the {name} in the log", secret in text, False)
    findings.expect("the log is short", text.count("\n") < 60, True)
