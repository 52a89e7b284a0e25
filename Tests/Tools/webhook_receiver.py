"""A webhook endpoint for tests: one that checks every request with independent libraries, and several hostile ones.

    webhook_receiver.py SECRET [CHAIN KEY [CLIENTS]]

speaks TLS where it is given a certificate, demands one of clients where it is given their authority, prints its port on a line, then serves until its standard input ends. The path picks the behaviour.
"""

import gzip
import json
import os
import socket
import struct
import sys
import time
from urllib.parse import parse_qs, urlparse

import http_receiver
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks.webhooks import Webhook

SECRET = sys.argv[1]
landed = 0
asked = {}


class Endpoint(http_receiver.Receiver):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        getattr(self, "on_" + url.path.strip("/").replace("-", "_"))(body, query)

    def on_verify(self, body, query):
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            Webhook(SECRET).verify(body, headers)
            binary = query.get("mode") == "binary"
            kind = "application/json" if binary else "application/cloudevents+json"
            assert headers["content-type"] == kind, headers
            event = from_http_event(HTTPMessage(headers=headers, body=body))
            assert event.get_id() == headers["webhook-id"], "id"
            assert event.get_specversion() == "1.0", "specversion"
            assert event.get_type() == "upstream.message.v1", "type"
            assert event.get_source() == query["source"], event.get_source()
            assert event.get_subject() and event.get_time(), "subject, time"
            extensions = event.get_attributes()
            assert int(extensions["attempt"]) == 3 and extensions["messageid"] == "sample", extensions
            assert extensions["replayid"] == "r-1" and extensions["category"], extensions
            assert event.get_data() == {"n": [1, 2.5, None, "\u00e4\u2028"]}, event.get_data()
            assert self.headers["host"].startswith(query["host"]), self.headers["host"]
        except Exception as error:
            self.answer(422, repr(error).encode())
        else:
            self.answer(200, b"ok")

    def on_batch(self, body, query):
        """Takes a batch, but for events whose data ask for something else."""
        asked[query["name"]] = asked.get(query["name"], 0) + 1
        headers = {name.lower(): value for name, value in self.headers.items()}
        Webhook(SECRET).verify(body, headers)
        events = json.loads(body)
        if headers["content-type"] != "application/cloudevents-batch+json" or not isinstance(events, list):
            return self.answer(401)
        for event in events:
            from_http_event(HTTPMessage(headers={"content-type": "application/cloudevents+json"}, body=json.dumps(event).encode()))
        failed = []
        for event in events:
            wanted = event.get("data", {}).get("is")
            if isinstance(wanted, int):
                return self.answer(wanted, b"because")
            if wanted == "later":
                failed.append({"message_key": event["id"], "retry_after": 7, "reason": "closed"})
            if wanted == "odd":
                failed.append({"message_key": event["id"], "reject": True})
            if wanted == "long":
                failed.append({"message_key": event["id"], "reason": "x" * 900})
            if wanted == "stranger":
                failed.append({"message_key": "00000000-0000-0000-0000-000000000000"})
            if wanted == "cut":
                return self.answer(200, b'{"failed": [', [("content-type", "application/json")])
            if wanted == "unbegun":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "100")
                self.end_headers()
                self.close_connection = True
                return
            forms = {"marked": "utf-8-sig", "wide": "utf-16-be", "untyped": "utf-8", "packed": "utf-8"}
            if wanted in forms:
                text = json.dumps({"failed": [{"message_key": event["id"], "reason": "closed"}]}).encode(forms[wanted])
                kind = "text/html; charset=UTF-8" if wanted == "untyped" else "application/vnd.example+json ; charset=utf-8"
                return self.answer(200, gzip.compress(text) if wanted == "packed" else text, [("content-type", kind)])
            if wanted == "list":
                return self.answer(200, b' ["ok"]', [("content-type", "application/json")])
            if wanted == "text":
                return self.answer(200, b"ok", [("content-type", "text/plain")])
        if failed:
            return self.answer(200, json.dumps({"failed": failed}).encode(), [("content-type", "application/json; charset=utf-8")])
        self.answer(204)

    def on_status(self, body, query):
        headers = [("retry-after", query["after"])] if "after" in query else []
        self.answer(int(query["code"]), b"because " + b"x" * int(query.get("size", 0)), headers)

    def on_header(self, body, query):
        values = self.headers.get_all(query["name"], [])
        self.answer(200 if values == [query["value"]] else 400)

    def on_identity(self, body, query):
        subject = dict(pair for part in self.connection.getpeercert()["subject"] for pair in part)
        self.answer(200 if subject["commonName"] == query["name"] else 403)

    def on_redirect(self, body, query):
        self.answer(int(query["code"]), b"", [("location", "/landed")])

    def on_landed(self, body, query):
        global landed
        landed += 1
        self.answer(200)

    def on_landings(self, body, query):
        self.answer(200 if landed == 0 else 500)

    def on_slow_head(self, body, query):
        time.sleep(60)

    def on_drip_head(self, body, query):
        for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 10000:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.2)

    def on_slow_body(self, body, query):
        self.send_response(int(query["code"]))
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"begun")
        self.wfile.flush()
        time.sleep(60)

    def on_endless_body(self, body, query):
        self.send_response(int(query["code"]))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"1000\r\n" + b"z" * 4096 + b"\r\n")

    def on_endless_head(self, body, query):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"x-more: " + b"h" * 1000 + b"\r\n")

    def on_rubbish(self, body, query):
        self.wfile.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
        self.close_connection = True

    def on_hang_up(self, body, query):
        self.close_connection = True

    def end_unanswered(self, query):
        self.close_connection = True
        if "reset" in query:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # At once: the server would end the stream in order first.
            os.close(self.connection.detach())

    def on_once(self, body, query):
        """One answer for each connection."""
        if hasattr(self, "has_answered"):
            return self.end_unanswered(query)
        self.has_answered = True
        self.answer(200)

    def on_first(self, body, query):
        """One answer for each name."""
        asked[query["name"]] = asked.get(query["name"], 0) + 1
        if asked[query["name"]] > 1:
            return self.end_unanswered(query)
        self.answer(200)

    def on_asked(self, body, query):
        self.answer(200 if asked.get(query["name"], 0) == int(query["times"]) else 400)


http_receiver.serve(Endpoint, *sys.argv[2:])
