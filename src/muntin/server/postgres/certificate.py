"""The certificate that PostgreSQL's clients see, read anew when its files are renewed."""

import logging
import ssl
from pathlib import Path

from muntin.errors import BadArgument
from muntin.storage import state_of

_LOG = logging.getLogger("muntin.server.postgres")


class Certificate:
    """A chain and its key as PEM files; TLS 1.2 or newer. Raises BadArgument: the files cannot be
    read, or do not belong together."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._files = (chain, key)
        self._seen = self._state()
        self._context = self._loaded()

    def context(self) -> ssl.SSLContext:
        """For a new connection. A renewed pair that does not load leaves the old one in use."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._context = self._loaded()
            except BadArgument as problem:
                _LOG.warning("the old certificate stays in use: %s", problem)
        return self._context

    def _state(self) -> tuple[object, ...]:
        return tuple(map(state_of, self._files))

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        chain, key = self._files
        try:
            # without a password, else OpenSSL would ask for one on the terminal
            context.load_cert_chain(chain, key, password=lambda: "")
        except (OSError, ValueError) as problem:
            raise BadArgument(
                f"no certificate with its key in {chain} and {key}: {problem}; "
                "give both as PEM, the key without a password"
            ) from None
        return context
