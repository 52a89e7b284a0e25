"""The CCS's part on a standard XMPP server, by an independent implementation (slixmpp).

Usage: xmpp_sender.py PORT CA_FILE JID TO        with the password on the first line of stdin

Each further line of stdin is a JSON object, sent as the payload of one message to TO; of {"raw": …} the text is sent as it
is, a whole stanza; {"load": N, "rate": R} sends messages m1 … mN, R a second. Each line of stdout is an event:
{"event": "ready"}, {"event": "ack", "id": …, "from": …}, {"event": "error", "id": …, "condition": …}. The end of stdin ends it, and the end of its stream.
"""

import asyncio
import json
import logging
import os
import sys
import xml.etree.ElementTree as ET

import slixmpp
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

PAYLOAD = "{google:mobile:data}gcm"


def say(**event):
    print(json.dumps(event), flush=True)


class Sender(slixmpp.ClientXMPP):
    def __init__(self, jid, password, to, ca_file):
        super().__init__(jid, password)
        self.ca_certs = ca_file
        self.to = to
        self.add_event_handler("session_start", lambda _: self.loop.create_task(self.serve()))
        self.add_event_handler("failed_auth", lambda _: say(event="refused"))
        self.register_handler(
            Callback("payload", MatchXPath("{jabber:client}message/" + PAYLOAD), self.on_payload)
        )
        # The server's own error replies hold nothing of what they answer but its id.
        self.register_handler(
            Callback("error", MatchXPath("{jabber:client}message/{jabber:client}error"), self.on_error)
        )

    def on_payload(self, message):
        if message["type"] != "error":
            payload = json.loads(message.xml.find(PAYLOAD).text or "{}")
            sender = {"from": str(message["from"])}
            say(event=payload.get("message_type", "?"), id=payload.get("message_id", ""), **sender)

    def on_error(self, message):
        say(event="error", id=message["id"], condition=message["error"]["condition"])

    async def serve(self):
        say(event="ready")
        while line := await self.loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            if "raw" in order:
                self.send_raw(order["raw"])
            elif "load" in order:
                self.loop.create_task(self.load(order["load"], order["rate"]))
            else:
                self.send_payload(order["message_id"], line.strip())
        await self.disconnect()

    def send_payload(self, message_id, text):
        message = self.make_message(mto=self.to, mtype="normal")
        message["id"] = message_id
        ET.SubElement(message.xml, PAYLOAD).text = text
        message.send()

    async def load(self, count, rate):
        start = self.loop.time()
        for number in range(1, count + 1):
            await asyncio.sleep(start + number / rate - self.loop.time())
            fields = {"message_id": f"m{number}", "from": "FAKE-token", "category": "com.example", "data": {}}
            self.send_payload(fields["message_id"], json.dumps(fields))
        say(event="loaded")


async def main(port, ca_file, jid, to):
    sender = Sender(jid, sys.stdin.readline().strip(), to, ca_file)
    sender.enable_direct_tls = True
    sender.connect("127.0.0.1", port)
    await sender.disconnected
    # The thread that reads stdin would hold the program up.
    os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    arguments = sys.argv[1:]
    asyncio.run(main(int(arguments[0]), *arguments[1:]))
