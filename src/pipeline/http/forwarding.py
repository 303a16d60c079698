"""The forms in which a proxy passes on the address that the visitor asked for::

    VirtualHostBase  /VirtualHostBase/https/www.example.com:443/sites/example/VirtualHostRoot/_vh_docs/page
    ++vh++           /sites/example/++vh++https:www.example.com:443/docs/++/page
    X-Vhm            X-Vhm-Host: https://www.example.com/docs     X-Vhm-Root: /sites/example
    Forwarded        Forwarded: for=203.0.113.5;host=www.example.com;proto=https           (RFC 7239)
    X-Forwarded      X-Forwarded-For, -Host, -Proto, -Port and -Prefix

In each example the visitor sees https://www.example.com/docs/page, which is the object at /sites/example/page.
Each function reads one form from the environ, and raises ValueError if it is malformed. The element ``vhost``
decides which forms are believed, and from which peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from pipeline.http.hosts import Host, Peers, parse_forwarded, parse_port, parse_scheme
from pipeline.names import is_segment

Environ = dict[str, Any]
Found = dict[str, Any]
"""The parts of an address that a form passes on: scheme, host (a Host), client, prefix and path (text as in a WSGI
environ), root (names)."""
Reader = Callable[[Environ, Peers, Found], None]
"""A function that adds the parts of a form to Found. It adds the client first, which counts also if the rest is
malformed (ValueError)."""

HEADERS = {
    "HTTP_FORWARDED": "Forwarded",
    "HTTP_X_FORWARDED_FOR": "X-Forwarded",
    "HTTP_X_FORWARDED_HOST": "X-Forwarded",
    "HTTP_X_FORWARDED_PORT": "X-Forwarded",
    "HTTP_X_FORWARDED_PREFIX": "X-Forwarded",
    "HTTP_X_FORWARDED_PROTO": "X-Forwarded",
    "HTTP_X_VHM_HOST": "X-Vhm",
    "HTTP_X_VHM_ROOT": "X-Vhm",
}
"""The headers that pass on an address, and the form that each belongs to."""


def read_virtual_host_base(environ: Environ, peers: Peers, found: Found) -> None:
    """Read the form of Zope's VirtualHostMonster. The proxy wrote the first VirtualHostRoot. A further one came
    from the visitor.

    The proxy wrote the ``_vh_`` segments behind it, up to an empty segment, which separates them from the path of
    the visitor (``VirtualHostRoot//...``). Without VirtualHostRoot the form has only scheme and host.
    """
    path = environ.get("PATH_INFO", "")
    if not path.startswith("/VirtualHostBase/"):
        return
    segments = path.split("/")[2:]
    if len(segments) < 2:
        raise ValueError("VirtualHostBase needs scheme and host")
    found.update(scheme=parse_scheme(segments[0]), host=Host.parse(segments[1]))
    if "VirtualHostRoot" not in segments[2:]:
        found["path"] = _joined(segments[2:])
        return
    end = segments.index("VirtualHostRoot", 2)
    start = end + 1
    while start < len(segments) and segments[start].startswith("_vh_"):
        start += 1
    prefix = _prefix([segment.removeprefix("_vh_") for segment in segments[end + 1 : start]])
    if segments[start : start + 1] == [""] and len(segments) > start + 1:
        start += 1
    found.update(root=names_of_path(segments[2:end]), prefix=prefix, path=_joined(segments[start:]))


def read_vh_namespace(environ: Environ, peers: Peers, found: Found) -> None:
    """Read the form ``++vh++scheme:host:port`` of zope.traversing. The visitor sees the segments up to ``++``."""
    path = environ.get("PATH_INFO", "")
    if "/++vh++" not in path:
        return
    segments = path.split("/")
    start = next(place for place, segment in enumerate(segments) if segment.startswith("++vh++"))
    if "++" not in segments[start:]:
        raise ValueError("++vh++ needs a segment ++")
    end = segments.index("++", start)
    prefix = _prefix(segments[start + 1 : end])
    found.update(root=names_of_path(segments[1:start]), prefix=prefix, path=_joined(segments[end + 1 :]))
    if origin := segments[start].removeprefix("++vh++"):
        scheme, _, host = origin.partition(":")
        found.update(scheme=parse_scheme(scheme), host=Host.parse(host))


def read_vhm_headers(environ: Environ, peers: Peers, found: Found) -> None:
    """Read the headers of repoze.vhm: the URL that the visitor sees for the top, and the path to the top."""
    if url := environ.get("HTTP_X_VHM_HOST"):
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        prefix = _prefix(unquote_to_bytes(path.rstrip("/")).decode("latin-1").split("/")) if path else ""
        found.update(scheme=parse_scheme(scheme), host=Host.parse(host), prefix=prefix)
    if root := environ.get("HTTP_X_VHM_ROOT"):
        if root[0] != "/":
            raise ValueError("X-Vhm-Root must start with a slash")
        found["root"] = names_of_path(root.split("/"))


def read_forwarded(environ: Environ, peers: Peers, found: Found) -> None:
    """Read ``Forwarded``: the element of the farthest proxy that is believed."""
    elements = parse_forwarded(environ.get("HTTP_FORWARDED", ""))
    if elements:
        client, believed = peers.client([element.get("for", "unknown") for element in elements])
        element = elements[-believed]
        if "for" in element:
            found["client"] = client
        if "host" in element:
            found["host"] = Host.parse(element["host"])
        if "proto" in element:
            found["scheme"] = parse_scheme(element["proto"])


def read_x_forwarded(environ: Environ, peers: Peers, found: Found) -> None:
    """Read ``X-Forwarded-*``. A proxy may have replaced a header, or added its value at the end."""
    believed = 1
    if nodes := _values(environ.get("HTTP_X_FORWARDED_FOR", "")):
        found["client"], believed = peers.client(nodes)

    def value(name: str) -> str | None:
        values = _values(environ.get(name, ""))
        return values[-min(believed, len(values))] if values else None

    if (host := value("HTTP_X_FORWARDED_HOST")) is not None:
        found["host"] = Host.parse(host)
    if (scheme := value("HTTP_X_FORWARDED_PROTO")) is not None:
        found["scheme"] = parse_scheme(scheme)
    if (port := value("HTTP_X_FORWARDED_PORT")) is not None:
        host_ = found.get("host") or Host.parse(environ.get("HTTP_HOST", ""))
        if host_.port is None or "host" not in found:
            number = parse_port(port)
            # An ingress behind a balancer that ends TLS says 80, which is the port of the balancer's own visit.
            found["host"] = Host(host_.name, None if (number, found.get("scheme")) == (80, "https") else number)
    if (prefix := value("HTTP_X_FORWARDED_PREFIX")) is not None:
        if prefix[:1] != "/":
            raise ValueError("X-Forwarded-Prefix must start with a slash")
        found["prefix"] = _prefix(prefix.strip("/").split("/")) if prefix.strip("/") else ""


READER = "vhost"
"""The element that reads these forms."""


def form_of_path(segment: str) -> str | None:
    """Return the form of a path that begins with this segment, in the spelling of the option ``accept``."""
    return next((form for form in ("VirtualHostBase", "++vh++") if segment.startswith(form)), None)


READERS: dict[str, Reader] = {
    "X-Forwarded": read_x_forwarded,
    "Forwarded": read_forwarded,
    "X-Vhm": read_vhm_headers,
    "++vh++": read_vh_namespace,
    "VirtualHostBase": read_virtual_host_base,
}
"""The readers by the name of the form. If several forms pass on the same part, the later reader counts."""


def _values(text: str) -> list[str]:
    """Return the members of a list. Empty ones do not count (RFC 9110 section 5.6.1)."""
    return [value for one in text.split(",") if (value := one.strip(" \t"))]


def names_of_path(segments: Iterable[str]) -> tuple[str, ...]:
    """Return the segments of a path to an object, as traversal takes them. Raise ValueError for one that it
    refuses."""
    names = tuple(segment.encode("latin-1").decode("utf-8") for segment in segments if segment)
    if not all(map(is_segment, names)):
        raise ValueError("not a path to an object")
    return names


def _prefix(segments: Iterable[str]) -> str:
    """Return SCRIPT_NAME, made from the segments that the visitor sees in front of the path."""
    segments = list(segments)
    for segment in segments:
        segment.encode("latin-1").decode("utf-8")
        if segment in ("", ".", "..") or "\0" in segment:
            raise ValueError("not a path in front of the site")
    return "".join(f"/{segment}" for segment in segments)


def _joined(segments: list[str]) -> str:
    return "/" + "/".join(segments) if segments else ""
