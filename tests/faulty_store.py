"""A proxy on loopback before an object store, which answers badly where a test says."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

_XML = "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message></Error>"
REFUSALS = {
    "500": (500, _XML.format("InternalError", "We encountered an internal error.").encode()),
    "503": (503, _XML.format("SlowDown", "Please reduce your request rate.").encode()),
    "expired": (400, _XML.format("ExpiredToken", "The provided token has expired.").encode()),
}
FAULTS = (*REFUSALS, "cut", "lost")
"""Or: the answer is cut in its midst; the store has done it, and nothing of an answer comes."""


class FaultyStore:
    """`fault` decides of a request, by its method, path and headers, how it is answered; "": as it
    should be."""

    def __init__(self, url: str) -> None:
        self.fault: Callable[[str, str, Mapping[str, str]], str] = lambda *_: ""
        self.faults = 0
        faulty, to = self, urlsplit(url).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ValueError):
                    self.close_connection = True

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                if self.headers.get("expect") == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                body = self.rfile.read(size)
                fault = faulty.fault(self.command, self.path, dict(self.headers))
                faulty.faults += bool(fault)
                if fault in REFUSALS:
                    status, said = REFUSALS[fault]
                    head = {"content-type": "application/xml"}
                else:
                    upstream = http.client.HTTPConnection(to, timeout=60)
                    upstream.request(self.command, self.path, body, dict(self.headers))
                    found = upstream.getresponse()
                    status, said = found.status, found.read()
                    head = dict(found.getheaders())
                    upstream.close()
                self.close_connection = fault in ("cut", "lost")
                if fault == "lost":
                    return
                self.send_response_only(status)
                named = {name.lower(): value for name, value in head.items()}
                for name in ("transfer-encoding", "connection"):
                    named.pop(name, None)
                if self.command != "HEAD":
                    named["content-length"] = str(len(said))
                for name, value in named.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(said[: len(said) // 2] if fault == "cut" else said)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *_: object) -> None: ...  # noqa: A002

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
