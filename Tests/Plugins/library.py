"""Calls a plugin's functions directly, as upstream-plugin-host does, each time in another process."""
import ctypes
import json
import os
import signal
import uuid

KINDS = {0: "unset", 1: "done", 2: "retry", 3: "reject"}
TEXTS = (
    "message_key", "message_id", "sender_id", "category", "registration_token", "device_key", "data", "extra", "message_type",
    "replay_id",
)  # fmt: skip
TOKEN = "FAKE-token-that-must-stay"


class Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), *[(name, Text) for name in TEXTS], ("received_at", ctypes.c_int64),
        ("attempt", ctypes.c_uint32), ("traceparent", Text), ("tracestate", Text),
    ]  # fmt: skip


class Outcome(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("reason", ctypes.c_char_p), ("reason_size", ctypes.c_size_t),
        ("reason_length", ctypes.c_size_t), ("retry_after", ctypes.c_uint64), ("kind", ctypes.c_int32),
    ]  # fmt: skip


def message(**values):
    """The values of a message; bytes or text, None for absent ones."""
    return {
        "message_key": str(uuid.uuid4()), "message_id": "m-1", "sender_id": "1234567890", "category": "orders",
        "registration_token": TOKEN, "device_key": str(uuid.uuid4()), "data": '{"item":"tea"}', "extra": f'{{"x":"{TOKEN}"}}',
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", **values,
    }  # fmt: skip


def encode(values):
    result = Message(struct_size=ctypes.sizeof(Message), received_at=1_700_000_000_123_456, attempt=1)
    for name, value in values.items():
        data = value.encode() if isinstance(value, str) else value
        if data is not None:
            setattr(result, name, Text(data, len(data)))
    return result


def in_process(work, log):
    """What `work` returns in a child of this process, whose output goes to the log."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(120)
            for number in (1, 2):
                os.dup2(log.fileno(), number)
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not answer:
        raise RuntimeError(f"the plugin ended its process: {status}")
    return json.loads(answer)


def open_error(path, configuration, log):
    """What upstream_plugin_open says, or None."""

    def work():
        library = ctypes.CDLL(path)
        # New memory isn't zero by luck (M_PERTURB).
        ctypes.CDLL(None).mallopt(-6, 85)
        error = ctypes.create_string_buffer(512)
        code = library.upstream_plugin_open(configuration.encode(), error, ctypes.c_size_t(len(error)))
        return None if code == 0 else error.value.decode()

    return in_process(work, log)


def handle(path, configuration, batches, log):
    """For each batch whether the call succeeded, and the kinds and reasons of its outcomes."""

    def work():
        library = ctypes.CDLL(path)
        error = ctypes.create_string_buffer(512)
        if library.upstream_plugin_open(configuration.encode(), error, ctypes.c_size_t(len(error))) != 0:
            raise RuntimeError(error.value.decode())
        answers = []
        for batch in batches:
            if callable(batch):
                batch()
                continue
            messages = [encode(values) for values in batch]
            buffers = [ctypes.create_string_buffer(1024) for _ in batch]
            outcomes = [
                Outcome(ctypes.sizeof(Outcome), ctypes.cast(buffer, ctypes.c_char_p), 1024, 0, 0, 0) for buffer in buffers
            ]
            count = len(batch)
            code = library.upstream_plugin_handle(
                (ctypes.POINTER(Message) * count)(*map(ctypes.pointer, messages)), ctypes.c_size_t(count),
                (ctypes.POINTER(Outcome) * count)(*map(ctypes.pointer, outcomes)),
            )  # fmt: skip
            answers.append((code == 0, [KINDS[each.kind] for each in outcomes], [b.value.decode() for b in buffers]))
        library.upstream_plugin_close()
        return answers

    return in_process(work, log)
