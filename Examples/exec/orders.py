#!/usr/bin/env python3
"""A handler of kind `exec`: a JSON object per line in, an answer per line out, in order.

    handlers:
      - name: orders
        categories: ["com.example.orders"]
        exec: {command: ["/usr/bin/python3", "/usr/lib/orders/orders.py"]}
"""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    order = message["data"]
    if not isinstance(order, dict) or "item" not in order:
        answer = {"outcome": "reject", "reason": "an order needs an item"}
    else:
        # Standard error goes to the worker's log. Print keys, never tokens or payload.
        print(f"order {message['message_key']}, attempt {message['attempt']}", file=sys.stderr)
        answer = {"outcome": "done"}
    # Naming the message in the answer is optional; it guards against answers in the wrong order.
    print(json.dumps(answer | {"message_key": message["message_key"]}), flush=True)
