"""One request to an address that nobody vouches for: public addresses alone, within bounds of time and size."""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

Allowed = Callable[[str], bool]  # whether an IP address may be asked
_TRIED = 3  # addresses of one host, where the first ones can't be connected to


class LeftOutError(Exception):
    """Why a page was left out: `reason`, in a word; `passing`, whether another attempt may bring it."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.passing = reason, passing


@dataclass(frozen=True)
class Reply:
    """What came of one request: kind is the content's type, charset what the header says, body is decompressed."""

    status: int
    kind: str
    charset: str | None
    location: str
    body: bytes


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet: not loopback, private, link-local, shared, reserved,
    documentation or multicast, nor an IPv6 address that carries an IPv4 one (mapped, 6to4, Teredo, NAT64).

    Source: the registries of IANA, as `ipaddress` has them.
    """
    try:
        ip = ip_address(address)
    except ValueError:  # a zone, as of fe80::1%eth0, is one of this machine's links
        return False
    if isinstance(ip, IPv6Address) and (ip.sixtofour or ip.teredo or ip.is_site_local or ip.scope_id):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def open_client(user_agent: str) -> httpx.AsyncClient:
    """A client without cookies, logins of this machine, redirects of its own or connections that are used twice."""
    import httpx

    return httpx.AsyncClient(
        headers={"user-agent": user_agent, "accept": "text/html, text/plain;q=0.9", "accept-encoding": "gzip"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_keepalive_connections=0),  # a kept one is found by IP address, whoever's host it was
        follow_redirects=False,
        trust_env=False,  # a proxy would look up names by itself; .netrc would send logins
    )


def read_address(address: str) -> httpx.URL:
    """An address without its fragment, an international host in ASCII.

    Raises: LeftOutError for one that is not http or https, has no host, or carries a login.
    """
    import httpx

    try:
        url = httpx.URL(address.strip()).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise LeftOutError("bad_address") from None
    if url.scheme not in ("http", "https") or not re.fullmatch(rb"[\w.:-]+", url.raw_host):
        raise LeftOutError("bad_address")
    if url.userinfo:
        raise LeftOutError("login_in_address")
    return url


async def get(client: httpx.AsyncClient, url: httpx.URL, *, allowed: Allowed, seconds: float, largest: int) -> Reply:
    """One GET, without following where it is sent.

    The host's name is looked up once, every address that it has must be allowed, and it is one of these addresses that
    is connected to, under the host's name: a name that changes its answer changes nothing. The connection's peer is
    looked at once more before anything is sent.

    Args: seconds: for all of it, from looking up the name to the last byte; largest: bytes, as sent and decompressed.
    Raises: LeftOutError: no_such_host, private_address, timeout, connection, too_large, unreadable.
    """
    import httpx

    try:
        async with asyncio.timeout(seconds):
            tried = (await _look_up(url, allowed))[:_TRIED]
            for place, address in enumerate(tried, start=1):
                try:
                    return await _send(client, url, address, allowed, largest)
                except httpx.ConnectError:
                    if place == len(tried):
                        raise
    except (TimeoutError, httpx.TimeoutException):
        raise LeftOutError("timeout", passing=True) from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise LeftOutError("connection", passing=True) from None
    raise LeftOutError("no_such_host", passing=True)


async def _look_up(url: httpx.URL, allowed: Allowed) -> list[str]:
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.raw_host.decode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise LeftOutError("no_such_host", passing=True) from None
    addresses = list(dict.fromkeys(str(peer[0]) for *_, peer in found))
    if not all(map(allowed, addresses)):
        raise LeftOutError("private_address")
    return addresses


async def _send(client: httpx.AsyncClient, url: httpx.URL, address: str, allowed: Allowed, largest: int) -> Reply:
    async def check_peer(event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            peer = info["return_value"].get_extra_info("server_addr")
            if not peer or not allowed(str(peer[0])):
                await info["return_value"].aclose()
                raise LeftOutError("private_address")

    how = {"trace": check_peer, "sni_hostname": url.raw_host.decode()}  # certificates are checked for the host's name
    headers = {"host": url.netloc.decode()}
    async with client.stream("GET", url.copy_with(host=address), headers=headers, extensions=how) as response:
        said = response.headers.get("content-length", "")
        if said.isdecimal() and int(said[:12]) > largest:
            raise LeftOutError("too_large")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > largest:
                raise LeftOutError("too_large")
        content = _decompress(response.headers.get("content-encoding", ""), bytes(body), largest)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        location = response.headers.get("location", "")
        return Reply(response.status_code, kind, response.charset_encoding, location, content)


def _decompress(coding: str, body: bytes, largest: int) -> bytes:
    if coding.strip().lower() in ("identity", "") or not body:
        return body
    if coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):  # we asked for gzip
        raise LeftOutError("unreadable")
    try:
        found = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, largest + 1)  # a bomb is not blown up
    except zlib.error:
        raise LeftOutError("unreadable") from None
    if len(found) > largest:
        raise LeftOutError("too_large")
    return found
