"""A device that sends upstream messages through an XMPP server, in plain protocol text: Python's standard library alone.

    plain_device.py HOST:PORT CA_FILE JID PASSWORD_FILE TO OUTBOX [--until-empty] [--resend SECONDS]

TLS from the first byte, SCRAM-SHA-256, bind; then it sends what is in the outbox, oldest first, and forgets a message only
when its ack comes. A message that has no ack after SECONDS (30), or that was sent on an earlier connection, is sent again
with the same id: the receiver stores it once, however often it comes.
"""

import base64
import hashlib
import hmac
import json
import random
import socket
import ssl
import sys
import time
import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape, quoteattr

from outbox import Outbox

WINDOW = 50  # messages that may be without an ack at a time
PAYLOAD = "{google:mobile:data}gcm"
MESSAGE = "{jabber:client}message"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"
BIND = "urn:ietf:params:xml:ns:xmpp-bind"


class Refused(Exception):
    """The server refuses our password: trying again at once would not help."""


class Stream:
    """One XMPP stream over TLS."""

    def __init__(self, address, ca_file, domain):
        self.domain = domain
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context(cafile=ca_file)
        plain = socket.create_connection((host, int(port)), timeout=15)
        # The certificate must be for our address's domain, whatever the host.
        self.socket = context.wrap_socket(plain, server_hostname=domain)
        self.open()

    def open(self):
        self.parser = ET.XMLPullParser(("start", "end"))
        self.depth = 0
        self.ready = []
        self.write(
            f"<stream:stream to={quoteattr(self.domain)} version='1.0' xmlns='jabber:client' "
            "xmlns:stream='http://etherx.jabber.org/streams'>"
        )

    def write(self, text):
        self.socket.sendall(text.encode())

    def read(self, seconds):
        """The next element of the stream, or None if none comes in time."""
        end = time.monotonic() + seconds
        while not self.ready:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not data:
                raise ConnectionError("the server has closed the connection")
            self.parser.feed(data)
            for event, element in self.parser.read_events():
                self.depth += 1 if event == "start" else -1
                if event == "start" and self.depth == 1:
                    self.root = element
                elif event == "end" and self.depth == 1:
                    self.ready.append(element)
                    self.root.clear()
                elif event == "end" and self.depth == 0:
                    raise ConnectionError("the server has ended the stream")
        return self.ready.pop(0)

    def expect(self, *tags):
        element = self.read(15)
        if element is None or element.tag not in tags:
            raise ConnectionError(f"not {' or '.join(tags)} but {'silence' if element is None else element.tag}")
        return element

    def sign_in(self, user, password):
        """SCRAM-SHA-256 (RFC 5802, 7677): the server never sees the password, and shows that it knows it too."""
        self.expect("{http://etherx.jabber.org/streams}features")
        nonce = base64.b64encode(random.SystemRandom().randbytes(18)).decode()
        bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.write(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{encode('n,,' + bare)}</auth>")
        challenge = self.answer("challenge")
        fields = dict(field.split("=", 1) for field in challenge.split(","))
        if not fields["r"].startswith(nonce) or fields["r"] == nonce or int(fields["i"]) < 4096:
            raise Refused("the server's challenge is not to be trusted")
        final = f"c={encode('n,,')},r={fields['r']}"
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        signed = f"{bare},{challenge},{final}".encode()
        client = mac(salted, b"Client Key")
        signature = mac(hashlib.sha256(client).digest(), signed)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature))).decode()
        self.write(f"<response xmlns='{SASL}'>{encode(f'{final},p={proof}')}</response>")
        expected = "v=" + base64.b64encode(mac(mac(salted, b"Server Key"), signed)).decode()
        if not hmac.compare_digest(self.answer("success"), expected):
            raise Refused("the server does not know our password")
        self.open()
        self.expect("{http://etherx.jabber.org/streams}features")
        self.write(f"<iq type='set' id='bind'><bind xmlns='{BIND}'/></iq>")
        if self.expect("{jabber:client}iq").get("type") != "result":
            raise ConnectionError("the server refuses to bind")
        # The server holds acks that came while we were away until we send our presence.
        self.write("<presence/>")

    def answer(self, name):
        element = self.expect(f"{{{SASL}}}{name}", f"{{{SASL}}}failure")
        if element.tag.endswith("failure"):
            raise Refused("the server refuses our password")
        return base64.b64decode(element.text or "").decode()

    def answer_ping(self, query):
        """Servers ping clients that are silent (XEP-0199); whatever they ask, an answer is enough for them."""
        to = f" to={quoteattr(query.get('from'))}" if query.get("from") else ""
        self.write(f"<iq type='result' id={quoteattr(query.get('id', ''))}{to}/>")

    def send(self, to, message_id, payload):
        self.write(
            f"<message to={quoteattr(to)} type='normal' id={quoteattr(message_id)}>"
            f"<gcm xmlns='google:mobile:data'>{escape(payload)}</gcm></message>"
        )


def encode(text):
    return base64.b64encode(text.encode()).decode()


def mac(key, text):
    return hmac.digest(key, text, "sha256")


def acked_id(element):
    """The id of the message that this stanza acks, or None if it is none: an error also repeats our payload."""
    payload = element.find(PAYLOAD) if element.tag == MESSAGE and element.get("type") != "error" else None
    if payload is None:
        return None
    content = json.loads(payload.text or "{}")
    return content.get("message_id") if content.get("message_type") == "ack" else None


def drain(stream, outbox, to, until_empty, resend):
    """Sends what is in the outbox, until the stream ends, or there is nothing left."""
    sent = {}  # when we sent a message, on this stream
    heard = time.monotonic()
    while not (until_empty and len(outbox) == 0):
        now = time.monotonic()
        for message_id, payload in outbox.pending(WINDOW):
            if now - sent.get(message_id, -resend) >= resend:
                stream.send(to, message_id, payload)
                sent[message_id] = now
        element = stream.read(0.2)
        while element is not None:
            heard = now
            message_id = acked_id(element)
            if message_id and outbox.acked(message_id):
                sent.pop(message_id, None)
                print("acked", message_id, flush=True)
            if element.tag == "{jabber:client}iq" and element.get("type") in ("get", "set"):
                stream.answer_ping(element)
            element = stream.ready.pop(0) if stream.ready else None
        if now - heard > 60:
            stream.write(" ")  # what tells us that the connection is gone, if it is
            heard = now
    stream.write("</stream:stream>")


def run(address, ca_file, jid, password_file, to, path, until_empty=False, resend=30.0):
    outbox = Outbox(path)
    user, _, domain = jid.partition("@")
    with open(password_file) as file:
        password = file.readline().rstrip("\n")
    pause = 0
    while not (until_empty and len(outbox) == 0):
        # Random, so that devices that lost their server at the same moment don't all return at the same moment.
        time.sleep(random.uniform(0, pause))
        pause = min(60, max(1, pause * 2))
        try:
            stream = Stream(address, ca_file, domain)
            stream.sign_in(user, password)
            pause = 0
            drain(stream, outbox, to, until_empty, resend)
        except Refused as error:
            print(f"{error}; trying again in a minute", file=sys.stderr, flush=True)
            time.sleep(60)
        except (OSError, ET.ParseError) as error:
            print(f"{error}; connecting again", file=sys.stderr, flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:7]
    options = sys.argv[7:]
    seconds = float(options[options.index("--resend") + 1]) if "--resend" in options else 30.0
    run(*arguments, until_empty="--until-empty" in options, resend=seconds)
