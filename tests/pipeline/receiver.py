"""A receiver of webhooks in a process of its own: python receiver.py FILE PORT SECRET [STATUS]

Each POST becomes a line of FILE: its headers and body, and whether the signature is right, by a
second reading of Standard Webhooks. Answers STATUS, 204 unless told.
"""

import base64
import hashlib
import hmac
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

file, port, secret, status = (*sys.argv[1:], "204")[:4]


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        message = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        expected = hmac.new(secret.encode(), message + body, hashlib.sha256).digest()
        said = self.headers["webhook-signature"].removeprefix("v1,")
        line = {
            "id": self.headers["webhook-id"],
            "signed": hmac.compare_digest(base64.b64decode(said), expected),
            "event": json.loads(body),
        }
        with open(file, "a") as lines:
            lines.write(json.dumps(line) + "\n")
        self.send_response(int(status))
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(port)), Receiver)
sys.stdout.write(f"{server.server_port}\n")
sys.stdout.flush()
server.serve_forever()
