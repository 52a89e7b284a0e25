"""What the tests' HTTP endpoints share: answers, and a server on the loopback address that ends with its standard input."""

import http.server
import socketserver
import ssl
import sys
import threading


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # A client that goes away is what some tests want.


def serve(receiver, chain=None, key=None, clients=None):
    """Speaks TLS where it is given a certificate, and demands one of clients where it is given their authority."""
    server = Server(("127.0.0.1", 0), receiver)
    if chain:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        if clients:
            context.load_verify_locations(clients)
            context.verify_mode = ssl.CERT_REQUIRED
        # The handshake belongs to the connection's own thread: one that fails must not stop the listener.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
