"""What a device has to say and has no ack for yet: a SQLite file, so that a crash or a reboot loses nothing.

As a program it takes messages for a sender that runs beside it:  outbox.py FILE CATEGORY < one JSON object a line
"""

import json
import sqlite3
import sys
import time
import uuid


class Full(Exception):
    """The outbox holds as much as it may; the caller decides what to give up."""


class Outbox:
    def __init__(self, path, limit=1000):
        self.limit = limit
        # Autocommit: each call below is a transaction, on disk when it returns.
        self.database = sqlite3.connect(path, isolation_level=None, timeout=10)
        self.database.execute("CREATE TABLE IF NOT EXISTS install (id TEXT NOT NULL)")
        # AUTOINCREMENT: a number is never reused, even after its row is gone.
        self.database.execute("CREATE TABLE IF NOT EXISTS outbox (n INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)")
        self.database.execute(
            "INSERT INTO install SELECT ? WHERE NOT EXISTS (SELECT 1 FROM install)", [uuid.uuid4().hex]
        )
        # A fresh install gets another id: its numbers start at 1 again, and its message ids must still be new.
        (self.install,) = self.database.execute("SELECT id FROM install").fetchone()

    def put(self, category, data):
        """Takes a message, unless the outbox is full. Its id is the install's and a number, and stays the same for ever."""
        body = json.dumps({"category": category, "data": data, "time": int(time.time())})
        row = self.database.execute(
            "INSERT INTO outbox (body) SELECT ? WHERE (SELECT count(*) FROM outbox) < ? RETURNING n", [body, self.limit]
        ).fetchone()
        if row is None:
            raise Full(f"{self.limit} messages wait for their acks")
        return f"{self.install}-{row[0]}"

    def pending(self, count):
        """The oldest messages that have no ack, in their order: (id, payload)."""
        rows = self.database.execute("SELECT n, body FROM outbox ORDER BY n LIMIT ?", [count])
        return [(f"{self.install}-{n}", self.payload(n, json.loads(body))) for n, body in rows.fetchall()]

    def payload(self, n, body):
        return json.dumps(
            {
                "message_id": f"{self.install}-{n}",
                "from": self.install,  # what names the device: its registration token, if it has one
                "category": body["category"],
                "data": {**body["data"], "time": body["time"]},
            }
        )

    def acked(self, message_id):
        """Forgets a message; true if it waited here."""
        install, _, n = message_id.rpartition("-")
        if install != self.install:
            return False
        return self.database.execute("DELETE FROM outbox WHERE n = ?", [n]).rowcount == 1

    def __len__(self):
        return self.database.execute("SELECT count(*) FROM outbox").fetchone()[0]


if __name__ == "__main__":
    outbox = Outbox(sys.argv[1])
    for line in sys.stdin:
        while True:
            try:
                print(outbox.put(sys.argv[2], json.loads(line)), flush=True)
                break
            except Full:
                time.sleep(0.1)
