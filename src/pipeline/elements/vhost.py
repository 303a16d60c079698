"""``vhost``: the address as the visitor sees it, and which object of the database is its top.

Whoever stands between the visitor and us says what the visitor asked for, in one of these forms::

    VirtualHostBase  /VirtualHostBase/https/www.example.com:443/sites/example/VirtualHostRoot/_vh_docs/page
    ++vh++           /sites/example/++vh++https:www.example.com:443/docs/++/page
    X-Vhm            X-Vhm-Host: https://www.example.com/docs     X-Vhm-Root: /sites/example
    Forwarded        Forwarded: for=203.0.113.5;host=www.example.com;proto=https           (RFC 7239)
    X-Forwarded      X-Forwarded-For, -Host, -Proto, -Port and -Prefix

Here the visitor sees https://www.example.com/docs/page, which is the object at /sites/example/page. One rule
holds for all (S9, S13): a form is honoured if it is one of those that ``accept`` names, comes from a
``trusted`` peer, and is for an allowed host. Otherwise its path segments are literal and its headers dropped.

What was honoured stands in the environ as if the visitor had come directly: url scheme, HTTP_HOST,
SERVER_NAME and SERVER_PORT, REMOTE_ADDR, SCRIPT_NAME and PATH_INFO. The path to the top is
``request.virtual_root_path``, which ``traverse`` walks first; the object there is ``request.virtual_root``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from webob.exc import HTTPBadRequest

from pipeline.composition import element
from pipeline.http.hosts import Host, Peers, parse_forwarded, parse_port, parse_scheme
from pipeline.interfaces import Handler, OptionError
from pipeline.request import Request
from pipeline.response import Response

Environ = dict[str, Any]
Found = dict[str, Any]
"""What a form says, as far as it says it: scheme, host (a Host), client, prefix and path (text as in a
WSGI environ), root (names)."""
Reader = Callable[[Environ, Peers], Found]

HEADERS = (
    "HTTP_FORWARDED",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_VHM_HOST",
    "HTTP_X_VHM_ROOT",
)


class VhostRequest(Request):
    """What ``vhost`` adds to a request."""

    forwarded: bool = False
    """Whether there were signs of a proxy, which ``vhost`` has taken away, believed or not."""


@element(
    adds=VhostRequest,
    outside={
        "retry": "the path is rewritten once, not once per attempt",
        "traverse": "it says where traversal starts",
    }
)
def vhost(
    next: Handler,
    *,
    trusted: tuple[str, ...] = (),
    accept: tuple[str, ...] = (),
    allowed_hosts: tuple[str, ...] = (),
    hosts: dict[str, str] | None = None,
) -> Handler:
    """Virtual hosting, and the checks of ``Host``.

    trusted        peers that are believed: IP addresses and networks, and "unix" for those on a unix socket
    accept         the forms that they use: any of VirtualHostBase, ++vh++, X-Vhm, Forwarded, X-Forwarded.
                   Name no other: a visitor could send it through a proxy that does not know it
    allowed_hosts  the hosts that are served: www.example.com (on any port), www.example.com:8080,
                   [2001:db8::1], .example.com (that and all below it), or * for any
    hosts          lines "host = /path/of/its/top"; these hosts are allowed, too

    Without options nobody is trusted and any host is served. Refuses, with 400: no Host, two, or one that is
    none (S10); a host that is not served, if some are named; Content-Length together with Transfer-Encoding
    (S11); what is malformed in a form that is accepted from this peer.
    """
    if bool(trusted) != bool(accept):
        raise OptionError(
            f"the options trusted and accept go together: which peers are believed, and which forms they "
            f"use ({', '.join(READERS)})"
        )
    if trusted and not allowed_hosts and not hosts:
        raise OptionError("with the option trusted, name the allowed_hosts too; * is any host")
    rewrite = Rewriting(trusted, accept, Sites(allowed_hosts, hosts or {}))
    unusual = rewrite.rewrite
    usual = rewrite.usual

    def vhost(request: VhostRequest, response: Response) -> None:
        environ = request.environ
        if (
            environ.get("HTTP_HOST") not in usual
            or "HTTP_TRANSFER_ENCODING" in environ
            # HEADERS, in full: a loop would cost more than all the rest
            or "HTTP_FORWARDED" in environ
            or "HTTP_X_FORWARDED_FOR" in environ
            or "HTTP_X_FORWARDED_HOST" in environ
            or "HTTP_X_FORWARDED_PORT" in environ
            or "HTTP_X_FORWARDED_PREFIX" in environ
            or "HTTP_X_FORWARDED_PROTO" in environ
            or "HTTP_X_VHM_HOST" in environ
            or "HTTP_X_VHM_ROOT" in environ
        ):
            unusual(request)
        next(request, response)

    return vhost


class Sites:
    """The hosts that are served, and the path to the top of each."""

    def __init__(self, allowed: Iterable[str], tops: dict[str, str]) -> None:
        self.tops: dict[str, tuple[str, ...]] = {}
        for pattern in allowed:
            self.tops[_pattern(pattern)] = ()
        for pattern, path in tops.items():
            self.tops[_pattern(pattern)] = _top(pattern, path)
        if not self.tops:
            self.tops["*"] = ()

    def top(self, host: Host) -> tuple[str, ...] | None:
        """Path to the top of that host, or None if it is not served. The most exact pattern wins."""
        name, port = host
        for pattern in (f"{name}:{port}", name, f".{name}"):
            if pattern in self.tops:
                return self.tops[pattern]
        while name:
            name = name.partition(".")[2]
            if f".{name}" in self.tops:
                return self.tops[f".{name}"]
        return self.tops.get("*")


class Rewriting:
    """What ``vhost`` does with requests that are not of the usual kind."""

    def __init__(self, trusted: Iterable[str], accept: Iterable[str], sites: Sites) -> None:
        try:
            self.peers = Peers(trusted)
        except ValueError as error:
            raise OptionError(f"option 'trusted': {error}") from None
        named = {word.lower() for word in accept}
        known = {name.lower() for name in READERS}
        if named - known:
            raise OptionError(
                f"option 'accept': {', '.join(sorted(named - known))} is none of {', '.join(READERS)}"
            )
        self.readers = [reader for name, reader in READERS.items() if name.lower() in named]
        self.reads_paths = not named.isdisjoint(("virtualhostbase", "++vh++"))
        self.sites = sites
        self.hosts: dict[str, tuple[Host, tuple[str, ...] | None]] = {}
        """What is known of a value of Host: the host, and the path to its top if it is served."""
        self.usual: set[str] = set()
        """Values of Host with which nothing is to be done, if no form is used either."""

    def rewrite(self, request: VhostRequest) -> None:
        environ = request.environ
        if environ.get("HTTP_TRANSFER_ENCODING") and environ.get("CONTENT_LENGTH"):
            raise HTTPBadRequest("Content-Length and Transfer-Encoding contradict each other.")
        sent: str = environ.get("HTTP_HOST", "")
        host, top = self.hosts.get(sent) or self._host(sent)
        found: Found = {}
        if self.readers and self.peers[environ.get("REMOTE_ADDR", "")]:
            try:
                for read in self.readers:
                    said = read(environ, self.peers)
                    if said and self.sites.top(said.get("host", host)) is not None:
                        found.update(said)
            except ValueError as error:
                raise HTTPBadRequest(f"The address that a proxy passed on is malformed: {error}.") from None
        for header in HEADERS:
            if header in environ:
                del environ[header]
                request.forwarded = True
        if found:
            request.forwarded = True
            top = found["root"] if "root" in found else self.sites.top(found.get("host", host))
        if top is None:
            raise HTTPBadRequest("This host is not served here.")
        if found:
            _apply(environ, found, host)
        if top:
            request.virtual_root_path = top
        elif not found and not self.reads_paths:
            self.usual.add(sent)

    def _host(self, sent: str) -> tuple[Host, tuple[str, ...] | None]:
        try:
            host = Host.parse(sent)
        except ValueError:
            raise HTTPBadRequest("The request needs one valid Host.") from None
        if len(self.hosts) > 1000:  # hosts come from the network: no bound but this one
            self.hosts.clear()
            self.usual.clear()
        known = self.hosts[sent] = host, self.sites.top(host)
        return known


def _apply(environ: Environ, found: Found, host: Host) -> None:
    """Make the environ what it would be if the visitor had come directly."""
    if "scheme" in found or "host" in found:
        scheme: str = found["scheme"] if "scheme" in found else environ["wsgi.url_scheme"]
        host = found.get("host", host)
        environ["wsgi.url_scheme"] = scheme
        environ["HTTP_HOST"], environ["SERVER_PORT"] = host.written(scheme)
        environ["SERVER_NAME"] = host.name
    if "prefix" in found:
        environ["SCRIPT_NAME"] = found["prefix"]
    if "path" in found:
        environ["PATH_INFO"] = found["path"]
    if "client" in found:
        environ["REMOTE_ADDR"] = found["client"]
        for stale in ("REMOTE_HOST", "REMOTE_PORT"):
            environ.pop(stale, None)


def read_virtual_host_base(environ: Environ, peers: Peers) -> Found:
    """Zope's VirtualHostMonster. The first VirtualHostRoot is ours: a further one came from the visitor."""
    path = environ.get("PATH_INFO", "")
    if not path.startswith("/VirtualHostBase/"):
        return {}
    segments = path.split("/")[2:]
    if "VirtualHostRoot" not in segments[2:]:
        raise ValueError("VirtualHostBase goes with scheme, host and VirtualHostRoot")
    end = segments.index("VirtualHostRoot", 2)
    start = end + 1
    while start < len(segments) and segments[start].startswith("_vh_"):
        start += 1
    return {
        "scheme": parse_scheme(segments[0]),
        "host": Host.parse(segments[1]),
        "root": _names(segments[2:end]),
        "prefix": _prefix([segment.removeprefix("_vh_") for segment in segments[end + 1 : start]]),
        "path": _joined(segments[start:]),
    }


def read_vh_namespace(environ: Environ, peers: Peers) -> Found:
    """zope.traversing's ``++vh++scheme:host:port``; what is between it and ``++``, the visitor sees."""
    path = environ.get("PATH_INFO", "")
    if "/++vh++" not in path:
        return {}
    segments = path.split("/")
    start = next(place for place, segment in enumerate(segments) if segment.startswith("++vh++"))
    if "++" not in segments[start:]:
        raise ValueError("++vh++ goes with a segment ++")
    end = segments.index("++", start)
    found: Found = {
        "root": _names(segments[1:start]),
        "prefix": _prefix(segments[start + 1 : end]),
        "path": _joined(segments[end + 1 :]),
    }
    if origin := segments[start].removeprefix("++vh++"):
        scheme, _, host = origin.partition(":")
        found.update(scheme=parse_scheme(scheme), host=Host.parse(host))
    return found


def read_vhm_headers(environ: Environ, peers: Peers) -> Found:
    """The headers of repoze.vhm: the URL that the visitor sees for the top, and the path to it."""
    found: Found = {}
    if url := environ.get("HTTP_X_VHM_HOST"):
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        prefix = _prefix(unquote_to_bytes(path.rstrip("/")).decode("latin-1").split("/")) if path else ""
        found.update(scheme=parse_scheme(scheme), host=Host.parse(host), prefix=prefix)
    if root := environ.get("HTTP_X_VHM_ROOT"):
        if root[0] != "/":
            raise ValueError("X-Vhm-Root starts with a slash")
        found["root"] = _names(root.split("/"))
    return found


def read_forwarded(environ: Environ, peers: Peers) -> Found:
    """``Forwarded``: the element of the farthest proxy that is believed."""
    found: Found = {}
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
    return found


def read_x_forwarded(environ: Environ, peers: Peers) -> Found:
    """``X-Forwarded-*``: a proxy may have replaced a header, or have added its value at the end."""
    found: Found = {}
    believed = 1
    if text := environ.get("HTTP_X_FORWARDED_FOR"):
        found["client"], believed = peers.client(_values(text))

    def value(name: str) -> str | None:
        if text := environ.get(name):
            values = _values(text)
            return values[-min(believed, len(values))]
        return None

    if (host := value("HTTP_X_FORWARDED_HOST")) is not None:
        found["host"] = Host.parse(host)
    if (scheme := value("HTTP_X_FORWARDED_PROTO")) is not None:
        found["scheme"] = parse_scheme(scheme)
    if (port := value("HTTP_X_FORWARDED_PORT")) is not None:
        host_ = found.get("host") or Host.parse(environ["HTTP_HOST"])
        if host_.port is None or "host" not in found:
            found["host"] = Host(host_.name, parse_port(port))
    if (prefix := value("HTTP_X_FORWARDED_PREFIX")) is not None:
        if prefix[:1] != "/":
            raise ValueError("X-Forwarded-Prefix starts with a slash")
        found["prefix"] = _prefix(prefix.strip("/").split("/")) if prefix.strip("/") else ""
    return found


READERS: dict[str, Reader] = {
    "X-Forwarded": read_x_forwarded,
    "Forwarded": read_forwarded,
    "X-Vhm": read_vhm_headers,
    "++vh++": read_vh_namespace,
    "VirtualHostBase": read_virtual_host_base,
}
"""By the name of the form, in rising order: what a later one says counts."""


def _values(text: str) -> list[str]:
    return [value.strip(" \t") for value in text.split(",")]


def _names(segments: Iterable[str]) -> tuple[str, ...]:
    """Segments of a path to an object, as traversal takes them; ValueError if it takes none of that kind."""
    names = tuple(segment.encode("latin-1").decode("utf-8") for segment in segments if segment)
    if any(name[0] == "_" or name in (".", "..") or "\0" in name for name in names):
        raise ValueError("no path to an object")
    return names


def _prefix(segments: Iterable[str]) -> str:
    """SCRIPT_NAME, of the segments that the visitor sees in front of the path."""
    segments = list(segments)
    for segment in segments:
        segment.encode("latin-1").decode("utf-8")
        if segment in ("", ".", "..") or "\0" in segment:
            raise ValueError("no path in front of the site")
    return "".join(f"/{segment}" for segment in segments)


def _joined(segments: list[str]) -> str:
    return "/" + "/".join(segments) if segments else ""


def _pattern(text: str) -> str:
    """An allowed host in the form in which ``Sites`` looks for it; OptionError if it is none."""
    if text == "*":
        return text
    dot = "." if text[:1] == "." else ""
    try:
        name, port = Host.parse(text.removeprefix("."))
    except ValueError as error:
        raise OptionError(f"{text!r} is no host: {error}") from None
    if dot and port:
        raise OptionError(f"{text!r}: a host and all below it are served on any port, or on none")
    return f"{name}:{port}" if port else dot + name


def _top(pattern: str, path: str) -> tuple[str, ...]:
    try:
        if path[:1] != "/":
            raise ValueError("it starts with a slash")
        return _names(path.encode().decode("latin-1").split("/"))
    except ValueError as error:
        raise OptionError(f"option 'hosts', {pattern}: {path!r} is no path: {error}") from None
