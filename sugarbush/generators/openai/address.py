"""Decides from an endpoint's address whether other machines can read the calls.

Case is ignored: HTTP://LocalHost is http://localhost.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(base_url: str) -> bool:
    """Return whether the address is on this machine.

    These are localhost, 127.0.0.0/8, ::1, and the addresses 0.0.0.0 and [::], which servers print
    and which a client reaches on its own machine. Any other name may be another machine.
    """
    host = (urlsplit(base_url).hostname or "").lower().removesuffix(".")
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:  # the host is a name
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address  # ::ffff:127.0.0.1
    return bool(mapped.is_loopback or mapped.is_unspecified)


def is_encrypted(base_url: str) -> bool:
    """Return whether the connection is encrypted. A proxy cannot read encrypted calls."""
    return urlsplit(base_url).scheme.lower() == "https"


def is_unencrypted(base_url: str) -> bool:
    """Return whether the calls leave this machine without encryption."""
    return not is_encrypted(base_url) and not is_loopback(base_url)


def may_use_proxy(base_url: str, *, reads_private_text: bool) -> bool:
    """Return whether calls may use the proxy of the environment variables.

    A proxy can read calls to an http address, and no setting says that the proxy is trusted. So
    without https, a proxy receives no private text and no call to this machine.
    """
    if is_encrypted(base_url):
        return True
    return not reads_private_text and not is_loopback(base_url)
