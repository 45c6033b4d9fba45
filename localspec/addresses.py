"""Addresses of machines: which of them are this one, which may be used, and HOST:PORT taken apart."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

from localspec.errors import UsageError

WHY = (
    "The RPC protocol of llama.cpp has no key and no encryption: whoever reaches a worker can read what passes through "
    "it, and can take over its process."
)


def is_loopback_name(name: str) -> bool:
    """By its looks: no name is looked up."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Is everything that this name stands for on this machine? Raises UsageError for a name that stands for nothing."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"There is no address {host!r}.", "For example: 127.0.0.1") from None
    return are_loopback(str(address[4][0]) for address in found)


def are_loopback(addresses: Iterable[str]) -> bool:
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def split(place: str) -> tuple[str, int]:
    """HOST:PORT; raises UsageError for what is none."""
    host, _, port = place.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{place!r} is no HOST:PORT.", "For example: --rpc 192.168.1.7:50052")
    return host.strip("[]"), int(port)


def probes() -> list[tuple[int, int, int]]:
    """Socket options with which the system itself asks a silent peer whether it is there: a machine that is gone, or a
    network that is cut, is noticed after nine seconds."""
    named = {"TCP_KEEPIDLE": 3, "TCP_KEEPALIVE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
    named["TCP_USER_TIMEOUT"] = 9000  # milliseconds, for what was sent and never confirmed
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    return options + [
        (socket.IPPROTO_TCP, getattr(socket, name), n) for name, n in named.items() if hasattr(socket, name)
    ]


def places(text: str | None, *, trusted: bool) -> tuple[str, ...]:
    """The workers of --rpc, each as HOST:PORT."""
    found = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    for place in found:
        allow(split(place)[0], trusted=trusted)
    return found


def allow(host: str, *, trusted: bool) -> bool:
    """Is this address other machines' as well? Raises UsageError for one that is, unless its network is `trusted`."""
    if is_loopback(host):
        return False
    if not trusted:
        raise UsageError(
            f"{host} is not this machine alone. {WHY}", "Where nobody else is, add --i-trust-this-network"
        )
    return True
