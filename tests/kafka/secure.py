"""A broker's listeners beside the open one: SCRAM over TLS, mutual TLS, tokens over TLS."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from muntin.demo.broker import Broker, free_ports

PASSWORD = "pa55-3f9c"  # noqa: S105 (of a broker on loopback that ends with its test)
DOCS = Path(__file__).parents[2] / "docs/kafka.md"


def recipe(name: str) -> dict[str, str]:
    """The options that docs/kafka.md gives under a name."""
    text = DOCS.read_text("utf-8").partition(f"**{name}**")[2].partition("```")[2]
    lines = [re.sub(r"\s+# .*", "", line) for line in text.partition("```")[0].splitlines()]
    return dict(line.split(": ", 1) for line in lines if line)


def pipeline_of_docs() -> dict:
    """The pipeline whose secrets come from the environment."""
    text = DOCS.read_text("utf-8").partition("## Secrets")[2].partition("```yaml")[2]
    return yaml.safe_load(text.partition("```")[0])


def pem(folder: Path, name: str, made: trustme.LeafCert, password: str = "") -> Path:
    """A certificate and its key in one file, as Kafka takes them; encrypted with the password."""
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    kept = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    if password:  # by PBES1, which docs/kafka.md asks for
        command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout"]
        kept = subprocess.run(
            [*command, f"pass:{password}"], input=kept, capture_output=True, check=True
        ).stdout
    file = folder / f"{name}.pem"
    file.write_bytes(kept + b"".join(part.bytes() for part in made.cert_chain_pems))
    return file


class Identity:
    """Hands tokens out to those who know the secret, and tells brokers how to check them."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked = self.refused = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(200, outer.keys())

            def do_POST(self) -> None:
                given = self.headers.get("authorization", "")
                self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.asked += 1
                if given == outer.login:
                    self._say(200, {"access_token": outer.token(), "expires_in": 300})
                else:
                    outer.refused += 1
                    self._say(401, {"error": "invalid_client"})

            def _say(self, status: int, told: dict) -> None:
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    login = "Basic " + urlsafe_b64encode(f"muntin:{PASSWORD}".encode()).decode()

    def keys(self) -> dict:
        numbers = self._key.public_key().public_numbers()
        n, e = (_text(v.to_bytes((v.bit_length() + 7) // 8)) for v in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": n, "e": e}]}

    def token(self) -> str:
        now = int(time.time())
        parts = [
            {"alg": "RS256", "kid": "1", "typ": "JWT"},
            {"sub": "muntin", "iss": self.url, "aud": "kafka", "iat": now, "exp": now + 300},
        ]
        said = ".".join(_text(json.dumps(part).encode()) for part in parts)
        signed = self._key.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{said}.{_text(signed)}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


class SecureBroker(Broker):
    """A broker with more listeners: addresses by name."""

    def __init__(self, folder: Path, identity: Identity, settings: dict[str, str]) -> None:
        super().__init__(folder / "kafka")
        self._settings |= settings
        self.folder, self.identity = folder, identity
        self.listeners: dict[str, str] = {}

    def _java(self, jars: Path, *words: str) -> subprocess.Popen[bytes]:
        urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.url}/keys"
        scram = ["--add-scram", f"SCRAM-SHA-512=[name=muntin,password={PASSWORD}]"]
        return super()._java(jars, urls, *words, *(scram if "format" in words else ()))


@contextmanager
def secure_broker(folder: Path):
    """A broker that listens as `scram`, `mutual` and `oauth` as well."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    pem(folder, "client", authority.issue_cert("muntin@client"), PASSWORD)
    server = pem(folder, "server", authority.issue_cert("127.0.0.1"))
    identity = Identity()
    ports = free_ports(5)
    at = [f"127.0.0.1:{port}" for port in ports]
    login = "org.apache.kafka.common.security"
    oauth = "listener.name.oauth.oauthbearer.sasl"
    settings = {
        "listeners": f"PLAINTEXT://{at[0]},SCRAM://{at[1]},MUTUAL://{at[2]},OAUTH://{at[3]},"
        f"CONTROLLER://{at[4]}",
        "advertised.listeners": f"PLAINTEXT://{at[0]},SCRAM://{at[1]},MUTUAL://{at[2]},"
        f"OAUTH://{at[3]}",
        "controller.quorum.voters": f"1@{at[4]}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "SCRAM:SASL_SSL,MUTUAL:SSL,OAUTH:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": (
            f"{login}.scram.ScramLoginModule required;"
        ),
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oauth}.jaas.config": f"{login}.oauthbearer.OAuthBearerLoginModule required;",
        f"{oauth}.server.callback.handler.class": (
            f"{login}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": f"{identity.url}/keys",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    broker = SecureBroker(folder, identity, settings)
    broker.servers = at[0]
    broker.listeners = dict(zip(("scram", "mutual", "oauth"), at[1:4], strict=True))
    try:
        with broker:
            yield broker
    finally:
        identity.close()
