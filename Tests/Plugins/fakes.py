"""What real servers can't be made to do at will: to be slow."""
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
