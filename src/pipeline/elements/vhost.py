"""``vhost``: the address as the visitor sees it, and the object of the database at its top.

A proxy between the visitor and the server passes on the address that the visitor asked for, in one of these forms::

    VirtualHostBase  /VirtualHostBase/https/www.example.com:443/sites/example/VirtualHostRoot/_vh_docs/page
    ++vh++           /sites/example/++vh++https:www.example.com:443/docs/++/page
    X-Vhm            X-Vhm-Host: https://www.example.com/docs     X-Vhm-Root: /sites/example
    Forwarded        Forwarded: for=203.0.113.5;host=www.example.com;proto=https           (RFC 7239)
    X-Forwarded      X-Forwarded-For, -Host, -Proto, -Port and -Prefix

Here the visitor sees https://www.example.com/docs/page, which is the object at /sites/example/page. One rule
holds for all (S9, S13): a form is believed if ``accept`` names it and it comes from a ``trusted`` peer. Otherwise
its path segments are literal, and its headers are dropped. A form that is believed is believed as a whole: if the
host in it is not served, the request is refused with 400, and logged with the address of the visitor.

The believed address is put in the environ, as if the visitor had come directly: url scheme, HTTP_HOST,
SERVER_NAME and SERVER_PORT, REMOTE_ADDR, SCRIPT_NAME and PATH_INFO. The path to the top is
``request.virtual_root_path``, which ``traverse`` walks first. The object there is ``request.virtual_root``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from webob.exc import HTTPBadRequest

from pipeline.composition import element
from pipeline.http.hosts import UNIX, Host, Peers, parse_forwarded, parse_port, parse_scheme
from pipeline.interfaces import Handler, OptionError
from pipeline.names import is_segment
from pipeline.request import Request
from pipeline.response import Response

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

MOST_TOLD = 20
"""Upper limit of the peers whose dropped headers are logged, once each. A scan of the site does not fill the
log."""

_log = logging.getLogger("pipeline.vhost")


@element(
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
    """Rewrite the address to the one that the visitor sees, and check ``Host``.

    trusted        peers that are believed: IP addresses and networks, and "unix" for those on a unix socket
    accept         the forms that they use: any of VirtualHostBase, ++vh++, X-Vhm, Forwarded, X-Forwarded.
                   Do not name another one: a visitor could send it through a proxy that does not know it
    allowed_hosts  the hosts that are served: www.example.com (on any port), www.example.com:8080,
                   [2001:db8::1], .example.com (that and all below it), or * for any
    hosts          lines "host = /path/of/its/top"; these hosts are allowed, too

    Without options no peer is trusted and any host is served. Refuses with 400: a request without a Host, with
    two, or with one that is not valid (S10); a host that is not served, if some are named, also where a trusted
    peer names it; a malformed form of a trusted peer.
    Headers of other peers, and of forms that are not accepted, are dropped; the first time for each peer, a
    warning says so and how to change it.
    """
    if bool(trusted) != bool(accept):
        raise OptionError(
            f"the options trusted and accept go together: trusted names the peers that are believed, and accept "
            f"names the forms that they use ({', '.join(READERS)})"
        )
    if trusted and not allowed_hosts and not hosts:
        raise OptionError("with the option trusted, name the allowed_hosts too; * allows any host")
    rewrite = Rewriting(trusted, accept, Sites(allowed_hosts, hosts or {}))
    unusual = rewrite.rewrite
    usual = rewrite.usual

    def vhost(request: Request, response: Response) -> None:
        environ = request.environ
        if environ.get("HTTP_HOST") not in usual or not environ.keys().isdisjoint(HEADERS):
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
        """Return the path to the top of that host, or None if it is not served. The most exact pattern wins."""
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
    """The work of ``vhost`` on requests that need more than the usual check."""

    def __init__(self, trusted: Iterable[str], accept: Iterable[str], sites: Sites) -> None:
        try:
            self.peers = Peers(trusted)
        except ValueError as error:
            raise OptionError(f"option 'trusted': {error}") from None
        named = {word.lower() for word in accept}
        known = {name.lower() for name in READERS}
        if named - known:
            raise OptionError(
                f"option 'accept': {', '.join(sorted(named - known))} is not one of {', '.join(READERS)}"
            )
        self.readers = [reader for name, reader in READERS.items() if name.lower() in named]
        self.reads_paths = not named.isdisjoint(("virtualhostbase", "++vh++"))
        self.sites = sites
        self.hosts: dict[str, tuple[Host, tuple[str, ...] | None]] = {}
        """The host, and the path to its top if it is served, by the value of Host."""
        self.usual: set[str] = set()
        """Values of Host that need no work if the request uses no form."""
        self.told: set[str] = set()
        """Peers whose dropped headers have been logged."""

    def rewrite(self, request: Request) -> None:
        environ = request.environ
        peer: str = environ.get("REMOTE_ADDR", "")
        trusted = bool(self.readers) and self.peers[peer]
        found = self._read(environ) if trusted else {}
        sent: str = environ.get("HTTP_HOST", "")
        host, top = self.hosts.get(sent) or self._host(sent)
        for header, form in HEADERS.items():
            if header in environ:
                del environ[header]
                if not (trusted and READERS[form] in self.readers):
                    self._tell(peer, form, trusted)
        if "host" in found:
            top = self.sites.top(found["host"])
        if top is None:
            raise HTTPBadRequest("This host is not served here.")
        if found:
            _apply(environ, found, host)
            top = found.get("root", top)
        if top:
            request.virtual_root_path = top
        elif not found and not self.reads_paths:
            self.usual.add(sent)

    def _read(self, environ: Environ) -> Found:
        """Return the parts of the address from all accepted forms of a trusted peer. The address of the visitor is
        set at once, also for the log of a request that is refused."""
        found: Found = {}
        try:
            for read in self.readers:
                read(environ, self.peers, found)
        except ValueError as error:
            raise HTTPBadRequest(f"The address that a proxy passed on is malformed: {error}.") from None
        finally:
            if "client" in found:
                environ["REMOTE_ADDR"] = found["client"]
                for stale in ("REMOTE_HOST", "REMOTE_PORT"):
                    environ.pop(stale, None)
        return found

    def _tell(self, peer: str, form: str, trusted: bool) -> None:
        """Log that the headers of a peer are dropped, and the remedy: once for each peer, up to MOST_TOLD peers."""
        if peer in self.told or len(self.told) >= MOST_TOLD:
            return
        self.told.add(peer)
        name = "unix" if peer in UNIX else peer
        if trusted:
            why, remedy = "'accept' does not name that form", f"put {form} into accept"
        else:
            why, remedy = "'trusted' does not name that peer", f"put {name} into trusted, {form} into accept"
        _log.warning(
            "vhost: the %s headers that %s sends are dropped, since the option %s. If it is your proxy, which "
            "writes these headers itself, %s. If not, a visitor sent them, and nothing needs to be done.",
            form, name, why, remedy,
        )  # fmt: skip

    def _host(self, sent: str) -> tuple[Host, tuple[str, ...] | None]:
        try:
            host = Host.parse(sent)
        except ValueError:
            raise HTTPBadRequest("The request needs one valid Host.") from None
        if len(self.hosts) > 1000:  # hosts come from the network, so nothing else limits their number
            self.hosts.clear()
            self.usual.clear()
        known = self.hosts[sent] = host, self.sites.top(host)
        return known


def _apply(environ: Environ, found: Found, host: Host) -> None:
    """Change the environ to what it would be if the visitor had come directly."""
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
    found.update(root=_names(segments[2:end]), prefix=prefix, path=_joined(segments[start:]))


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
    found.update(root=_names(segments[1:start]), prefix=prefix, path=_joined(segments[end + 1 :]))
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
        found["root"] = _names(root.split("/"))


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
        host_ = found.get("host") or Host.parse(environ.get("HTTP_HOST", ""))
        if host_.port is None or "host" not in found:
            found["host"] = Host(host_.name, parse_port(port))
    if (prefix := value("HTTP_X_FORWARDED_PREFIX")) is not None:
        if prefix[:1] != "/":
            raise ValueError("X-Forwarded-Prefix must start with a slash")
        found["prefix"] = _prefix(prefix.strip("/").split("/")) if prefix.strip("/") else ""


READERS: dict[str, Reader] = {
    "X-Forwarded": read_x_forwarded,
    "Forwarded": read_forwarded,
    "X-Vhm": read_vhm_headers,
    "++vh++": read_vh_namespace,
    "VirtualHostBase": read_virtual_host_base,
}
"""The readers by the name of the form. If several forms pass on the same part, the later reader counts."""


def _values(text: str) -> list[str]:
    return [value.strip(" \t") for value in text.split(",")]


def _names(segments: Iterable[str]) -> tuple[str, ...]:
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


def _pattern(text: str) -> str:
    """Return an allowed host in the form that ``Sites`` looks up. Raise OptionError if it is not valid."""
    if text == "*":
        return text
    dot = "." if text[:1] == "." else ""
    try:
        name, port = Host.parse(text.removeprefix("."))
    except ValueError as error:
        raise OptionError(f"{text!r} is not a host: {error}") from None
    if dot and port:
        raise OptionError(f"{text!r}: a pattern that starts with a dot cannot have a port; leave the port out")
    return f"{name}:{port}" if port else dot + name


def _top(pattern: str, path: str) -> tuple[str, ...]:
    try:
        if path[:1] != "/":
            raise ValueError("it must start with a slash")
        return _names(path.encode().decode("latin-1").split("/"))
    except ValueError as error:
        raise OptionError(f"option 'hosts', {pattern}: {path!r} is not a path: {error}") from None
