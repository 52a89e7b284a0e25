#!/usr/bin/env python3
"""An endpoint for a handler of kind `webhook`; needs the PyPI package standardwebhooks.

    python3 receiver.py 8080 whsec_...

    handlers:
      - name: orders
        categories: ["com.example.orders"]
        webhook: {url: "http://127.0.0.1:8080/", secret_file: orders.secret, allow_networks: ["127.0.0.0/8"]}
"""

import http.server
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

seen = set()  # In earnest: a unique key in the database that the effects go to.


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            Webhook(sys.argv[2]).verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            return self.finish_with(401)
        event = json.loads(body)
        if event["id"] not in seen:  # Delivered at least once: the id stays the same over retries and replays.
            seen.add(event["id"])
            print(event["category"], event.get("data"), flush=True)
        self.finish_with(204)

    def finish_with(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
