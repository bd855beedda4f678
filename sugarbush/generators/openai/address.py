"""Decides from the address of an endpoint who can read what is sent to it.

Schemes and hosts are compared without case, as the client does: HTTP://LocalHost is
http://localhost.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(base_url: str) -> bool:
    """Whether the address is of this machine: localhost, 127.0.0.0/8 or ::1."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # the host is a name
        return False


def is_encrypted(base_url: str) -> bool:
    """Whether the connection is encrypted, so that a proxy on the way sees only encrypted bytes."""
    return urlsplit(base_url).scheme.lower() == "https"


def is_unencrypted(base_url: str) -> bool:
    """Whether others can read what is sent there: the address is not https and not this machine."""
    return not is_encrypted(base_url) and not is_loopback(base_url)


def may_use_proxy(base_url: str, *, reads_private_text: bool) -> bool:
    """Whether calls may go through a proxy that the environment names.

    A proxy could read what is sent to an http address, and no setting declares it trusted. So
    without https, a proxy gets no private text and nothing that is sent to this machine.
    """
    if is_encrypted(base_url):
        return True
    return not reads_private_text and not is_loopback(base_url)
