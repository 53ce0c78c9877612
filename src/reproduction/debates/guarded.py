"""One request to an address that nobody vouches for: public addresses alone, within bounds of time and size."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any

import httpcore
import httpx

Allowed = Callable[[str], bool]  # whether an IP address may be asked


class LeftOutError(Exception):
    """Why a page was left out: `reason`, in a word; `passing`, whether another attempt may bring it."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.passing = reason, passing


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet: not loopback, private, link-local, shared, reserved,
    documentation or multicast, nor an IPv6 address that carries an IPv4 one (mapped, 6to4, Teredo, NAT64).

    Source: the registries of IANA, as `ipaddress` has them.
    """
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and (ip.sixtofour or ip.teredo or ip.is_site_local or ip.scope_id):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


class _GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Looks a host's name up once, and connects to an address that it has just checked."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed, self._network = allowed, httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *args: Any, **how: Any) -> httpcore.AsyncNetworkStream:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise LeftOutError("no_such_host", passing=True) from None
        addresses = dict.fromkeys(str(peer[0]) for *_, peer in found)
        if not all(map(self._allowed, addresses)):
            raise LeftOutError("private_address")
        for address in addresses:
            with suppress(httpcore.ConnectError):
                return await self._network.connect_tcp(address, port, *args, **how)
        raise LeftOutError("connection", passing=True)


def open_pool(allowed: Allowed) -> httpcore.AsyncConnectionPool:
    """Connections to allowed addresses, none used twice; no cookies, redirects, proxies or logins of this machine."""
    return httpcore.AsyncConnectionPool(network_backend=_GuardedNetwork(allowed), max_keepalive_connections=0)


def read_address(address: str, base: httpx.URL | str = "") -> httpx.URL:
    """An address, maybe relative to a base, without its fragment, an international host in ASCII.

    Raises: LeftOutError for one that is not http or https, has no host, or carries a login.
    """
    try:
        url = httpx.URL(base).join(address.strip()).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise LeftOutError("bad_address") from None
    if url.scheme not in ("http", "https") or not re.fullmatch(rb"[\w.:-]+", url.raw_host):
        raise LeftOutError("bad_address")
    if url.userinfo:
        raise LeftOutError("login_in_address")
    return url


async def get(
    pool: httpcore.AsyncConnectionPool, url: httpx.URL, *, agent: str, seconds: float, largest: int
) -> httpx.Response:
    """One GET, without following where it is sent; no compressed content is asked for.

    Args: seconds: for all of it, from looking up the name to the last byte; largest: bytes.
    Raises: LeftOutError: no_such_host, private_address, timeout, connection, too_large, compressed.
    """
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    asked = {"User-Agent": agent, "Accept": "text/html, text/plain;q=0.9", "Accept-Encoding": "identity"}
    try:
        async with asyncio.timeout(seconds), pool.stream("GET", target, headers=list(asked.items())) as response:
            head, body = httpx.Response(response.status, headers=response.headers), bytearray()
            if int(head.headers.get("content-length", 0)) > largest:
                raise LeftOutError("too_large")
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) > largest:
                    raise LeftOutError("too_large")
    except TimeoutError:
        raise LeftOutError("timeout", passing=True) from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise LeftOutError("connection", passing=True) from None
    coded = head.headers.pop("content-encoding", "").strip().lower() not in ("", "identity")
    if coded and head.is_success:  # though it was not asked for: it could be blown up without an end
        raise LeftOutError("compressed")
    return httpx.Response(response.status, headers=head.headers, content=bytes(body))
