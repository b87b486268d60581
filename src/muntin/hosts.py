"""Which machine an address or a URL names."""

import ipaddress
from urllib.parse import SplitResult


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_a_host(url: SplitResult, *schemes: str) -> bool:
    """Whether a URL has one of these schemes, a host and no impossible port."""
    try:
        return url.scheme in schemes and bool(url.hostname) and url.port != 0
    except ValueError:  # of a port that is no number
        return False
