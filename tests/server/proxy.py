"""nginx with the location of deploy/nginx.conf: TLS, and a path before the server's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import pytest
import trustme

LOCATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
CONF = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/chain.pem; ssl_certificate_key {folder}/key.pem;
        {location}
    }}
}}
"""


@contextlib.contextmanager
def under_a_path(url):
    """The https address under which nginx has the server at `url`; Python trusts it meanwhile."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx")
    with tempfile.TemporaryDirectory() as place:
        folder, trust = Path(place), trustme.CA()
        made = trust.issue_cert("127.0.0.1")
        trust.cert_pem.write_to_path(folder / "trust.pem")
        made.private_key_pem.write_to_path(folder / "key.pem")
        (folder / "chain.pem").write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        location = LOCATION.read_text().replace("127.0.0.1:8787", urlsplit(url).netloc)
        conf = CONF.format(folder=folder, port=port, location=location)
        (folder / "nginx.conf").write_text(conf)
        command = [nginx, "-c", folder / "nginx.conf", "-e", folder / "error.log"]
        with subprocess.Popen(command) as running:
            try:
                until = time.monotonic() + 30
                while not _listens(port):
                    assert running.poll() is None, (folder / "error.log").read_text()
                    assert time.monotonic() < until
                    time.sleep(0.05)
                with mock.patch.dict(os.environ, SSL_CERT_FILE=str(folder / "trust.pem")):
                    yield f"https://127.0.0.1:{port}/muntin"
            finally:
                running.terminate()


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
