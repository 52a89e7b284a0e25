"""What real servers can't be made to do at will: to be slow, and to be at a limit."""
import json
import socket
import threading
import time


class SlowNetwork:
    """Passes a connection on to a server, but takes no more than `rate` bytes a second of it."""

    def __init__(self, port, rate):
        self.target, self.rate = port, rate
        self.listener = socket.socket()
        # Little fits into the network itself.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.sockets = [self.listener]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def accept(self):
        try:
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.sockets += [near, far]
                for source, target, rate in ((near, far, self.rate), (far, near, None)):
                    threading.Thread(target=self.pass_on, args=(source, target, rate), daemon=True).start()
        except OSError:
            pass

    def pass_on(self, source, target, rate):
        try:
            while data := source.recv(4096):
                target.sendall(data)
                if rate:
                    time.sleep(len(data) / rate)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class FakeStream:
    """Answers messages as a JetStream stream with troubles: errors by the subject."""

    def __init__(self, server, pattern, errors):
        self.server, self.errors = server, errors
        self.stream, self.lines = server.connect()
        self.stream.sendall(b"SUB %s 1\r\nPING\r\n" % pattern.encode())
        if self.lines.readline() != b"PONG\r\n":
            raise RuntimeError("nats-server doesn't take the subscription")

    def __enter__(self):
        threading.Thread(target=self.answer, daemon=True).start()
        return self

    def __exit__(self, *_):
        try:
            self.stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def answer(self):
        try:
            while words := self.lines.readline().decode().split():
                if words[0] == "PING":
                    self.stream.sendall(b"PONG\r\n")
                if words[0] != "HMSG":
                    continue
                self.lines.read(int(words[-1]) + 2)
                subject, reply = words[1], words[3]
                text = json.dumps({"error": self.errors[subject], "stream": "FAKE", "seq": 0}, separators=(",", ":")).encode()
                self.stream.sendall(b"PUB %s %d\r\n%s\r\n" % (reply.encode(), len(text), text))
        except (OSError, ValueError):
            pass
