"""A device that sends upstream messages through an XMPP server, with slixmpp (pip install slixmpp).

    slixmpp_device.py HOST:PORT CA_FILE JID PASSWORD_FILE TO OUTBOX [--until-empty] [--resend SECONDS]

It sends what is in the outbox, oldest first, and forgets a message only when its ack comes. A message that has no ack after
SECONDS (30), or that was sent on an earlier connection, is sent again with the same id: the receiver stores it once, however
often it comes.
"""

import asyncio
import json
import random
import sys
import time
import xml.etree.ElementTree as ET

import slixmpp
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from outbox import Outbox

WINDOW = 50  # messages that may be without an ack at a time
PAYLOAD = "{google:mobile:data}gcm"


class Device(slixmpp.ClientXMPP):
    def __init__(self, address, ca_file, jid, password, to, outbox, resend):
        super().__init__(jid, password)
        self.host, _, self.port = address.rpartition(":")
        self.ca_certs = ca_file
        self.enable_direct_tls = True
        self.enable_starttls = self.enable_plaintext = False
        self.to, self.outbox, self.resend = to, outbox, resend
        self.sent = {}  # when we sent a message, on this connection
        self.is_online = self.was_online = False
        self.changed = asyncio.Event()
        self.register_plugin("xep_0199", {"keepalive": True, "interval": 60})
        self.add_event_handler("session_start", self.on_start)
        self.add_event_handler("disconnected", self.on_end)
        self.register_handler(
            Callback("payload", MatchXPath("{jabber:client}message/" + PAYLOAD), self.on_payload)
        )

    def on_start(self, _):
        # The server holds acks that came while we were away until we send our presence.
        self.send_presence()
        self.sent = {}
        self.is_online = self.was_online = True
        self.changed.set()

    def on_end(self, _):
        self.is_online = False
        self.changed.set()

    def on_payload(self, message):
        if message["type"] == "error":
            return  # it only repeats our own payload
        content = json.loads(message.xml.find(PAYLOAD).text or "{}")
        if content.get("message_type") == "ack" and self.outbox.acked(content.get("message_id", "")):
            self.sent.pop(content["message_id"], None)
            print("acked", content["message_id"], flush=True)
            self.changed.set()

    def send_pending(self):
        now = time.monotonic()
        for message_id, payload in self.outbox.pending(WINDOW):
            if now - self.sent.get(message_id, -self.resend) >= self.resend:
                message = self.make_message(mto=self.to, mtype="normal")
                message["id"] = message_id
                ET.SubElement(message.xml, PAYLOAD).text = payload
                message.send()
                self.sent[message_id] = now

    async def session(self, until_empty):
        """One connection, from its beginning to its end."""
        self.connect(self.host, int(self.port))
        while True:
            try:
                # Woken by an ack, or by the time limit: for new messages in the outbox, and for those to resend.
                await asyncio.wait_for(self.changed.wait(), 0.2 if self.is_online else 30)
            except TimeoutError:
                if not self.is_online:
                    break
            self.changed.clear()
            if not self.is_online:
                break
            if until_empty and len(self.outbox) == 0:
                break
            self.send_pending()
        await self.disconnect()


async def run(address, ca_file, jid, password_file, to, path, until_empty, resend):
    outbox = Outbox(path)
    with open(password_file) as file:
        password = file.readline().rstrip("\n")
    pause = 0
    while not (until_empty and len(outbox) == 0):
        # Random, so that devices that lost their server at the same moment don't all return at the same moment.
        await asyncio.sleep(random.uniform(0, pause))
        pause = min(60, max(1, pause * 2))
        device = Device(address, ca_file, jid, password, to, outbox, resend)
        device.add_event_handler("failed_auth", lambda _: print("the server refuses our password", file=sys.stderr))
        await device.session(until_empty)
        if device.was_online:
            pause = 0


if __name__ == "__main__":
    arguments = sys.argv[1:7]
    options = sys.argv[7:]
    seconds = float(options[options.index("--resend") + 1]) if "--resend" in options else 30.0
    asyncio.run(run(*arguments, until_empty="--until-empty" in options, resend=seconds))
