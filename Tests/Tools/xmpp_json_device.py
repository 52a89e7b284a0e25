"""A device that is an ordinary XMPP client (slixmpp) and knows nothing of CCS: it sends JSON containers (XEP-0335).

Usage: xmpp_json_device.py PORT CA_FILE JID TO        with the password on the first line of stdin

Each further line of stdin is a JSON object. With "id", the stanza's id, it is a message: "json", a container's content, or
"body", a text; and, where wanted, "origin", the id of an <origin-id/> (XEP-0359), "receipt": true, a request for a receipt
(XEP-0184), "inner", further elements as XML, and "type". With "node" it is for a PubSub node (XEP-0060) of the service
pubsub.DOMAIN: "subscribe": true makes the node and subscribes TO; "item", an id, publishes "json" or "inner"; "retract", an
item's id. Each line of stdout is an event: {"event": "ready"}, {"event": "ack", "id": …, "to": …} for an ack in a JSON container,
{"event": "receipt", "id": …}, {"event": "node", "id": …} when the service has done it, {"event": "body", "id": …} with a text
that came, {"event": "error", "id": …}. The end of stdin ends it.
"""

import asyncio
import json
import logging
import sys
import xml.etree.ElementTree as ET

import slixmpp
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

CONTAINER = "{urn:xmpp:json:0}json"


def say(**event):
    print(json.dumps(event), flush=True)


class Device(slixmpp.ClientXMPP):
    def __init__(self, jid, password, to, ca_file):
        super().__init__(jid, password)
        self.ca_certs = ca_file
        self.to = to
        self.register_plugin("xep_0184")
        self["xep_0184"].auto_request = False
        self.register_plugin("xep_0060")
        self.add_event_handler("session_start", lambda _: self.loop.create_task(self.serve()))
        # What has no body is no "message" to slixmpp.
        self.register_handler(
            Callback("container", MatchXPath("{jabber:client}message/" + CONTAINER), self.on_container)
        )
        self.add_event_handler("message_error", lambda message: say(event="error", id=message["id"]))
        self.add_event_handler("message", lambda message: say(event="body", id=message["body"]))
        self.add_event_handler("receipt_received", lambda message: say(event="receipt", id=message["receipt"]))

    def on_container(self, message):
        if message["type"] != "error":
            ack = json.loads(message.xml.find(CONTAINER).text)
            say(event=ack.get("message_type", "?"), id=ack.get("message_id"), to=ack.get("to"))

    async def serve(self):
        self.send_presence()
        say(event="ready")
        while line := await self.loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            if "node" in order:
                await self.use_node(order)
                continue
            message = self.make_message(mto=self.to, mtype=order.get("type", "normal"))
            message["id"] = order["id"]
            if "json" in order:
                ET.SubElement(message.xml, CONTAINER).text = json.dumps(order["json"])
            if "body" in order:
                message["body"] = order["body"]
            if "inner" in order:
                message.xml.extend(ET.fromstring(f"<all>{order['inner']}</all>"))
            if "origin" in order:
                ET.SubElement(message.xml, "{urn:xmpp:sid:0}origin-id", {"id": order["origin"]})
            if order.get("receipt"):
                message["request_receipt"] = True
            message.send()
        await self.disconnect()


    async def use_node(self, order):
        nodes, service, node = self.plugin["xep_0060"], f"pubsub.{self.boundjid.domain}", order["node"]
        if order.get("subscribe"):
            await nodes.create_node(service, node)
            await nodes.modify_subscriptions(service, node, [(self.to, "subscribed")])
        elif "retract" in order:
            await nodes.retract(service, node, order["retract"], notify="true")
        else:
            payload = ET.fromstring(order["inner"]) if "inner" in order else ET.Element(CONTAINER)
            if "json" in order:
                payload.text = json.dumps(order["json"])
            await nodes.publish(service, node, id=order["item"], payload=payload)
        say(event="node", id=order.get("item"))


async def main(port, ca_file, jid, to):
    device = Device(jid, sys.stdin.readline().strip(), to, ca_file)
    device.enable_direct_tls = True
    device.connect("127.0.0.1", port)
    await device.disconnected


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    arguments = sys.argv[1:]
    asyncio.run(main(int(arguments[0]), *arguments[1:]))
