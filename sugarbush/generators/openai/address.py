"""Decides from the address of an endpoint who can read the calls to this endpoint.

Letter case has no effect: HTTP://LocalHost is http://localhost, as for the HTTP client.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(base_url: str) -> bool:
    """Whether the address is on this machine: localhost, 127.0.0.0/8 or ::1."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # the host is a name
        return False


def is_encrypted(base_url: str) -> bool:
    """Whether the connection is encrypted, so that a proxy cannot read the calls."""
    return urlsplit(base_url).scheme.lower() == "https"


def is_unencrypted(base_url: str) -> bool:
    """Whether others can read the calls: the address has no https and is not on this machine."""
    return not is_encrypted(base_url) and not is_loopback(base_url)


def may_use_proxy(base_url: str, *, reads_private_text: bool) -> bool:
    """Whether calls may use a proxy that environment variables name.

    A proxy could read calls to an http address, and no setting says that the proxy is trusted. So
    without https, a proxy gets no private text, and no call to this machine.
    """
    if is_encrypted(base_url):
        return True
    return not reads_private_text and not is_loopback(base_url)
