"""An XMPP server that signs clients in by SCRAM with channel binding, and somebody who sits between; neither shares a line with
the worker. TLS is pyOpenSSL's: Python's own gives no keying material.

    scram_server.py serve CHAIN KEY '{"domain": …, "user": …, …}'    the password is the first line of standard input
    scram_server.py relay CHAIN KEY '{"port": …, "hide": [REGEX, …]}'

Both print `listening PORT`, then what happens, a line each. Options of `serve`: `mechanisms`; `types`, the channel bindings that
it knows; `list`, those that it announces (XEP-0440; null for no list); `sasl2` (XEP-0388) in place of the older profile; `ssdp`
(XEP-0474); `identity`, the address that SASL2 gives the client. Of both: `maximum`, "1.2" for no newer TLS.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import select
import socket
import ssl
import sys
import threading
import xml.etree.ElementTree as ElementTree

from OpenSSL import SSL

STREAM = "http://etherx.jabber.org/streams"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"
SASL2 = "urn:xmpp:sasl:2"


def say(*words):
    print(*words, flush=True)


def listen():
    listener = socket.create_server(("127.0.0.1", 0))
    say("listening", listener.getsockname()[1])
    return listener


class Stanzas:
    """The top-level elements of a stream, read as they come."""

    def __init__(self, connection):
        self.connection = connection
        self.restart()

    def restart(self):
        self.parser = ElementTree.XMLPullParser(("start", "end"))
        self.depth = 0
        self.ready = []

    def __iter__(self):
        while True:
            while self.ready:
                yield self.ready.pop(0)
            try:
                data = self.connection.recv(65536)
            except SSL.Error:
                return
            if not data:
                return
            self.parser.feed(data)
            for event, element in self.parser.read_events():
                self.depth += 1 if event == "start" else -1
                if event == "start" and self.depth == 1:
                    self.ready.append(("open", element))
                elif event == "end" and self.depth == 1:
                    self.ready.append(("stanza", element))
                elif event == "end" and self.depth == 0:
                    self.ready.append(("close", element))


class Client:
    def __init__(self, connection, certificate, options, password):
        self.connection, self.options, self.password = connection, options, password
        self.certificate = certificate
        self.namespace = SASL2 if options["sasl2"] else SASL
        self.authenticated = False
        self.state = None

    def send(self, text):
        self.connection.sendall(text.encode())

    def run(self):
        stanzas = Stanzas(self.connection)
        for kind, element in stanzas:
            if kind == "open":
                self.send(f"<?xml version='1.0'?><stream:stream from='{self.options['domain']}' id='1' version='1.0' "
                          f"xmlns='jabber:client' xmlns:stream='{STREAM}'>")
                say("stream", element.get("from") or "-")
                self.send(self.features())
            elif kind == "close":
                self.send("</stream:stream>")
                break
            elif not self.stanza(element):
                stanzas.restart()
        self.connection.shutdown()

    def features(self):
        if self.authenticated:
            return "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
        names = "".join(f"<mechanism>{name}</mechanism>" for name in self.options["mechanisms"])
        tag = "authentication" if self.options["sasl2"] else "mechanisms"
        text = f"<{tag} xmlns='{self.namespace}'>{names}</{tag}>"
        if self.options["list"] is not None:
            types = "".join(f"<channel-binding type='{name}'/>" for name in self.options["list"])
            text += f"<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'>{types}</sasl-channel-binding>"
        return f"<stream:features>{text}</stream:features>"

    def stanza(self, element):
        """Answers; false where the client's stream begins anew behind it."""
        tag, text = element.tag, "".join(element.itertext()).strip()
        if tag in (f"{{{SASL}}}auth", f"{{{SASL2}}}authenticate"):
            self.first(element.get("mechanism"), base64.b64decode(text))
        elif tag in (f"{{{SASL}}}response", f"{{{SASL2}}}response"):
            self.last(base64.b64decode(text))
            return not self.authenticated or self.options["sasl2"]
        elif tag == "{jabber:client}iq" and self.authenticated:
            self.send(f"<iq type='result' id='{element.get('id')}'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>"
                      f"{self.options['user']}@{self.options['domain']}/r</jid></bind></iq>")
            say("bound")
        return True

    def fail(self, why):
        say("refused:", why)
        self.send(f"<failure xmlns='{self.namespace}'><not-authorized xmlns='{SASL}'/></failure>")

    def binding(self, name):
        if name == "tls-exporter":
            return self.connection.export_keying_material(b"EXPORTER-Channel-Binding", 32, b"")
        if name == "tls-unique":
            return self.connection.get_peer_finished()
        return hashlib.sha256(self.certificate).digest()

    def first(self, mechanism, message):
        header, bare = re.fullmatch(rb"((?:[ny]|p=[^,]*),,)(n=.*)", message).groups()
        self.mechanism, self.header, self.bare = mechanism, header, bare
        self.hash = re.fullmatch(r"SCRAM-(SHA-\d+)(-PLUS)?", mechanism).group(1).replace("-", "").lower()
        plus = mechanism.endswith("-PLUS")
        if header == b"y,," and self.options["types"]:
            return self.fail("the client takes us for a server without channel binding")
        if plus != header.startswith(b"p="):
            return self.fail("mechanism and header differ")
        kind = header[2:-2].decode()
        if plus and kind not in self.options["types"]:
            return self.fail("unknown type of channel binding")
        self.kind, self.expected = (kind, header + self.binding(kind)) if plus else ("none", header)
        user, nonce = re.fullmatch(rb"n=([^,]*),r=([^,]*)", bare).groups()
        if user.decode() != self.options["user"]:
            return self.fail("unknown user")
        self.salt = secrets.token_bytes(16)
        self.nonce = nonce + secrets.token_hex(12).encode()
        self.challenge = b"r=%s,s=%s,i=4096" % (self.nonce, base64.b64encode(self.salt))
        if self.options["ssdp"]:
            text = b"\x1e".join(sorted(name.encode() for name in self.options["mechanisms"]))
            if self.options["list"] is not None:
                text += b"\x1f" + b"\x1e".join(sorted(name.encode() for name in self.options["list"]))
            self.challenge += b",h=" + base64.b64encode(hashlib.new(self.hash, text).digest())
        self.send(f"<challenge xmlns='{self.namespace}'>{base64.b64encode(self.challenge).decode()}</challenge>")

    def last(self, message):
        without, channel, nonce, proof = re.fullmatch(rb"(c=([^,]*),r=([^,]*)),p=(.*)", message).groups()
        if base64.b64decode(channel) != self.expected:
            return self.fail("the client sees another TLS connection")
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, self.salt, 4096)
        key = hmac.digest(salted, b"Client Key", self.hash)
        text = b",".join((self.bare, self.challenge, without))
        signature = hmac.digest(hashlib.new(self.hash, key).digest(), text, self.hash)
        if nonce != self.nonce or bytes(a ^ b for a, b in zip(key, signature)) != base64.b64decode(proof):
            return self.fail("wrong proof")
        ours = hmac.digest(hmac.digest(salted, b"Server Key", self.hash), text, self.hash)
        data = base64.b64encode(b"v=" + base64.b64encode(ours)).decode()
        self.authenticated = True
        say("authenticated", self.mechanism, self.kind, self.connection.get_protocol_version_name())
        if self.options["sasl2"]:
            identity = self.options["identity"] or f"{self.options['user']}@{self.options['domain']}"
            self.send(f"<success xmlns='{SASL2}'><additional-data>{data}</additional-data>"
                      f"<authorization-identifier>{identity}</authorization-identifier></success>" + self.features())
        else:
            self.send(f"<success xmlns='{SASL}'>{data}</success>")


def serve(chain, key, options):
    options = {"mechanisms": [], "types": [], "list": None, "sasl2": False, "ssdp": False, "identity": None} | options
    password = sys.stdin.readline().strip().encode()
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_chain_file(chain)
    context.use_privatekey_file(key)
    with open(chain) as file:
        pem = re.search("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", file.read(), re.DOTALL).group(0)
    certificate = ssl.PEM_cert_to_DER_cert(pem)
    if options.get("maximum") == "1.2":
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
    listener = listen()
    while True:
        connection, _ = listener.accept()
        secured = SSL.Connection(context, connection)
        secured.set_accept_state()

        def run(secured=secured):
            try:
                secured.do_handshake()
                Client(secured, certificate, options, password).run()
            except (SSL.Error, OSError) as error:
                say("ended:", repr(error))

        threading.Thread(target=run, daemon=True).start()


def relay(chain, key, options):
    """Ends TLS in the server's place, with a certificate of its own, and passes on what comes, but for what it hides."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(chain, key)
    if options.get("maximum") == "1.2":
        ours.maximum_version = ssl.TLSVersion.TLSv1_2
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.check_hostname = False
    theirs.verify_mode = ssl.CERT_NONE

    def copy(source, target, hidden):
        """Passes on what is there; returns whether more may come."""
        try:
            while data := source.recv(65536):
                for pattern in hidden:
                    data = re.sub(pattern.encode(), b"", data)
                target.setblocking(True)
                target.sendall(data)
                target.setblocking(False)
        except ssl.SSLWantReadError:
            return True
        return False

    def between(client, server):
        """Both ways in one thread, since no two may use a TLS connection at once."""
        for end in (client, server):
            end.setblocking(False)
        try:
            while copy(client, server, []) and copy(server, client, options.get("hide", [])):
                select.select([client, server], [], [])
        except OSError:
            pass
        for end in (client, server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    listener = listen()
    while True:
        connection, _ = listener.accept()
        try:
            client = ours.wrap_socket(connection, server_side=True)
            server = theirs.wrap_socket(socket.create_connection(("127.0.0.1", options["port"])))
        except OSError as error:
            say("ended:", repr(error))
            continue
        say("between", client.version(), server.version())
        threading.Thread(target=between, args=(client, server), daemon=True).start()


if __name__ == "__main__":
    {"serve": serve, "relay": relay}[sys.argv[1]](sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
