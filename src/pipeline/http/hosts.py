"""Hosts, ports and peers, and the headers in which proxies pass them on.

The functions turn text from the network into canonical values, and raise ValueError for malformed text. All take
time linear in their input (S12). The element ``vhost`` decides which peers are believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

PORTS = {"http": 80, "https": 443}
"""The default port, by scheme."""

_LONGEST = 255
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_PORT = re.compile(r"[0-9]{1,5}")
_PAIR = re.compile(r"""[ \t]*(?:([-!#$%&'*+.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^ \t",;]+))[ \t]*)?""")
_OBFUSCATED = re.compile(r"unknown|_[-._0-9A-Za-z]+", re.IGNORECASE)
UNIX = ("", "localhost")
"""REMOTE_ADDR of a peer on a unix socket: most servers leave it empty, waitress says localhost."""


class Host(NamedTuple):
    """The value of a ``Host`` header: a name in lower case without a dot at its end, or an IP address (version 6 in
    brackets, in its shortest form); and the port, or None."""

    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Host:
        if text[:1] == "[":
            literal, bracket, rest = text[1:_LONGEST].partition("]")
            if not bracket or "%" in literal or rest[:1] not in ("", ":"):
                raise ValueError("not an IPv6 address in brackets")
            name, colon, port = f"[{IPv6Address(literal).compressed}]", rest[:1], rest[1:]
        else:
            name, colon, port = text.lower().partition(":")
            if len(name) > _LONGEST or not _NAME.fullmatch(name):
                raise ValueError("not a host name")
            name = name.removesuffix(".")
            if name.rpartition(".")[2].isdecimal():  # as browsers do, read it as an address or refuse it
                name = str(IPv4Address(name))
        return cls(name, parse_port(port) if colon else None)

    def written(self, scheme: str) -> tuple[str, str]:
        """Return ``HTTP_HOST`` and the port, for that scheme."""
        usual = PORTS[scheme]
        port = self.port or usual
        return (self.name if port == usual else f"{self.name}:{port}"), str(port)


def parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65536:
        raise ValueError("not a port number")
    return int(text)


def parse_scheme(text: str) -> str:
    scheme = text.lower()
    if scheme not in PORTS:
        raise ValueError("neither http nor https")
    return scheme


def parse_node(text: str) -> str:
    """Return the address in a ``for``, with or without port and brackets; "unknown" if it is obfuscated (RFC 7239
    section 6). The zone of an address of IPv6, which may be any text, is left out."""
    if _OBFUSCATED.fullmatch(text.partition(":")[0]):
        return "unknown"
    if text[:1] == "[":
        literal, bracket, rest = text[1:].partition("]")
        if not bracket or rest[:1] not in ("", ":"):
            raise ValueError("not an IPv6 address in brackets")
        return str(IPv6Address(literal.partition("%")[0]))
    if text.count(":") == 1:
        text = text.partition(":")[0]
    return str(ip_address(text.partition("%")[0]))


def parse_forwarded(text: str) -> list[dict[str, str]]:
    """Return the elements of a ``Forwarded`` header (RFC 7239 section 4): the parameter values by name."""
    elements: list[dict[str, str]] = [{}]
    position = 0
    while True:
        found = _PAIR.match(text, position)
        if found is None:  # the pattern also matches the empty text
            raise ValueError("not a Forwarded header")
        name, quoted, plain = found.groups()
        if name is not None:
            name = name.lower()
            if name in elements[-1]:
                raise ValueError(f"{name!r} stands twice in one element")
            elements[-1][name] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = found.end()
        if position == len(text):
            return [element for element in elements if element]
        if text[position] == ",":
            elements.append({})
        elif text[position] != ";":
            raise ValueError("not a name=value pair")
        position += 1


class Peers(dict[str, bool]):
    """A cache that tells whether an address is that of a trusted peer.

    ``words`` are IP addresses and networks, and "unix" for every peer on a unix socket.
    """

    def __init__(self, words: Iterable[str]) -> None:
        words = tuple(words)
        self.unix = "unix" in words
        self.networks = tuple(ip_network(word) for word in words if word != "unix")

    def __missing__(self, address: str) -> bool:
        if len(self) > 1000:  # addresses come from the network, so nothing else limits their number
            self.clear()
        trusted = self[address] = self._find(address)
        return trusted

    def _find(self, address: str) -> bool:
        if address in UNIX:
            return self.unix
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self.networks)

    def client(self, nodes: list[str]) -> tuple[str, int]:
        """Return the address of the visitor, and the number of proxies that are believed. ``nodes`` are the
        addresses that the proxies wrote, nearest last. A proxy is believed if the trusted proxy behind it names it.
        Addresses further away could be text of the visitor, and are ignored."""
        address = "unknown"
        for believed, node in enumerate(reversed(nodes), 1):
            address = parse_node(node)
            if address == "unknown" or not self[address]:
                return address, believed
        return address, len(nodes)


PEER = "vhost.peer"
"""The variable of the environ with the address of the connection, once ``REMOTE_ADDR`` is that of the visitor."""
MOUNTED = "vhost.mounted"
"""The variable of the environ with ``SCRIPT_NAME`` as it was before a namespace of the path was moved to it."""
VISITOR = "vhost.visitor"
"""The variable of the environ with the visitor's address as a trusted proxy gave it. It is empty if the proxy gave
none, or gave that of another trusted proxy."""
_SHARED = Peers(
    (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
        *("::1", "fc00::/7", "fe80::/10", "unix"),
    )
)
"""Addresses that can be those of a proxy in front of all visitors: of this machine and of private networks."""


def hides_visitors(peers: Peers) -> bool:
    """Return whether ``visitor_of`` knows all these peers as proxies by their addresses alone."""
    return all(_SHARED[str(network[0])] and _SHARED[str(network[-1])] for network in peers.networks)


def visitor_of(environ: dict[str, Any]) -> str:
    """Return the address that distinguishes this visitor from others, or "" if a proxy hides it."""
    known: str | None = environ.get(VISITOR)
    address: str = environ.get("REMOTE_ADDR", "")
    return known if known is not None else "" if _SHARED[address] else address
