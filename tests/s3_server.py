"""An S3 server on loopback, in a process of its own."""

import os
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

from muntin.demo.broker import free_ports

LOOPBACK = "127.0.0.1"
START_SECONDS = 120
KEYS = {
    "AWS_ACCESS_KEY_ID": "muntin",
    "AWS_SECRET_ACCESS_KEY": "muntin-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server(folder):
    """The environment with which clients find it; it has one bucket, `bucket`."""
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    words = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=os.environ)
    try:
        end = time.monotonic() + START_SECONDS
        while not _takes(url):
            assert process.poll() is None, (folder / "s3.log").read_text()[-2000:]
            assert time.monotonic() < end, (folder / "s3.log").read_text()[-2000:]
            time.sleep(0.1)
        make = urllib.request.Request(f"{url}/bucket", method="PUT")  # noqa: S310
        urllib.request.urlopen(make, timeout=30).close()  # noqa: S310
        yield {**KEYS, "AWS_ENDPOINT_URL": url}
    finally:
        process.kill()
        process.wait()


def _takes(url):
    try:
        urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()  # noqa: S310
    except OSError:
        return False
    return True
