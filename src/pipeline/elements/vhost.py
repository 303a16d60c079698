"""``vhost``: the address as the visitor sees it, and the object of the database at its top.

A proxy between the visitor and the server passes on the address that the visitor asked for, in one of the forms
of ``pipeline.http.forwarding``. One rule holds for all forms (S9, S13): a form is believed if ``accept`` names
it and it comes from a ``trusted`` peer. Otherwise its path segments are literal, and its headers are dropped. A
form that is believed is believed as a whole: if the host in it is not served, the request is refused with 400,
and logged with the address of the visitor.

The believed address is put in the environ, as if the visitor had come directly: url scheme, HTTP_HOST,
SERVER_NAME and SERVER_PORT, REMOTE_ADDR, SCRIPT_NAME and PATH_INFO. The path to the top is
``request.virtual_root_path``, which ``traverse`` walks first. The object there is ``request.virtual_root``.
``pipeline.http.hosts.visitor_of`` tells whether REMOTE_ADDR is the address of one visitor (S22).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from webob.exc import HTTPBadRequest

from pipeline.composition import Offers, element
from pipeline.http.forwarding import HEADERS, READERS, Environ, Found, names_of_path
from pipeline.http.hosts import PEER, UNIX, VISITOR, Host, Peers, hides_visitors
from pipeline.http.origins import mount_at, mount_of
from pipeline.interfaces import Facts, Handler, OptionError
from pipeline.options import on_demand
from pipeline.request import Request
from pipeline.response import Response

if TYPE_CHECKING:
    from pipeline.http.bodies import drain_at_end
else:  # for cost alone: a request without a body does not need it
    drain_at_end = on_demand("pipeline.http.bodies:drain_at_end")

MOST_TOLD = 20
"""Upper limit of the peers whose dropped headers are logged, once each. A scan of the site does not fill the
log."""

ANY_HOST = (
    "the site answers for any host that a client names",
    "Name them: allowed_hosts = www.example.com",
)
"""Advice for an operator."""

_log = logging.getLogger("pipeline.vhost")


def _facts(
    *,
    trusted: tuple[str, ...],
    accept: tuple[str, ...],
    allowed_hosts: tuple[str, ...],
    hosts: dict[str, str] | None,
    **options: Any,
) -> Facts:
    def distrusts(peer: str, form: str) -> str:
        peers = Peers(trusted)
        if (peers.unix if peer == "unix" else peers.networks) and form.lower() in map(str.lower, accept):
            return ""
        name = peer if peer == "unix" else f"the address of the proxy, such as {peer}"
        return (
            f"trusted is {' '.join(trusted)!r} and accept is {' '.join(accept)!r}. Let trusted name {name}, and "
            f"accept {form}. With the variables of `pipeline new`: proxies={peer} headers={form} served_hosts=HOST"
        )

    served = (*allowed_hosts, *(hosts or {}))
    return Facts(
        hosts=served,
        distrusts=distrusts,
        limits={400: ("trusted", "accept", "allowed_hosts", "hosts")},
        advice=(ANY_HOST,) if "*" in served or not served else (),
    )


@element(
    facts=_facts,
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
    cross_site: bool = False,
    cross_site_at: tuple[str, ...] = (),
) -> Handler | Offers:
    """Rewrite the address to the one that the visitor sees, and check ``Host``.

    trusted        peers that are believed: IP addresses and networks, and "unix" for those on a unix socket
    accept         the forms that they use: any of VirtualHostBase, ++vh++, X-Vhm, Forwarded, X-Forwarded.
                   Do not name another one: a visitor could send it through a proxy that does not know it
    allowed_hosts  the hosts that are served: www.example.com (on any port), www.example.com:8080,
                   [2001:db8::1], .example.com (that and all below it), or * for any
    hosts          lines "host = /path/of/its/top"; these hosts are allowed, too
    cross_site     whether pages of other sites may have a browser send unsafe requests (POST, PUT, ...) to a
                   foreign application or middleware inside. Otherwise they are a 403 (S23). A view says so itself:
                   ``@view(cross_site=True)``
    cross_site_at  paths, such as /api: the same for the applications at these paths and below alone

    Without options no peer is trusted and any host is served. Three kinds of requests are refused with 400: those
    without a Host, with two, or with one that is not valid (S10); those for a host that is not served, whether the
    visitor or a trusted peer names it; and those with a malformed form of a trusted peer.
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
    mounts = [mount_at("cross_site_at", path) for path in cross_site_at]
    rewrite = Rewriting(trusted, accept, Sites(allowed_hosts, hosts or {}))
    unusual = rewrite.rewrite
    usual = rewrite.usual

    def vhost(request: Request, response: Response) -> None:
        environ = request.environ
        if environ.get("HTTP_HOST") not in usual or not environ.keys().isdisjoint(HEADERS):
            unusual(request)
        if mounts:
            request.cross_site = cross_site or mount_of(request.environ.get("PATH_INFO", ""), mounts) is not None
        next(request, response)

    return Offers(vhost, cross_site=True) if cross_site else vhost


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
        labels = name.split(".")
        parents = (f".{'.'.join(labels[start:])}" for start in range(len(labels)))
        patterns = (f"{name}:{port}", name, *parents, "*")
        return next((self.tops[pattern] for pattern in patterns if pattern in self.tops), None)


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
        # Requests that show no form in a header: a form in the path, and a proxy that could be taken for a visitor.
        self.reads_all = not named.isdisjoint(("virtualhostbase", "++vh++")) or not hides_visitors(self.peers)
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
        found: Found = {}
        if trusted:
            found = self._read(request, environ)
            client = found.get("client", "")
            environ[VISITOR] = "" if self.peers[client] else client
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
        elif not found and not self.reads_all:
            self.usual.add(sent)

    def _read(self, request: Request, environ: Environ) -> Found:
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
                environ[PEER] = environ.get("REMOTE_ADDR", "")
                environ["REMOTE_ADDR"] = found["client"]
                for stale in ("REMOTE_HOST", "REMOTE_PORT"):
                    environ.pop(stale, None)
                if request.announces_body:  # it comes by a proxy, which has all of it
                    drain_at_end(request)
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


def _pattern(text: str) -> str:
    """Return an allowed host in the form that ``Sites`` looks up. Raise OptionError if it is not valid."""
    if text == "*":
        return text
    dot = "." if text[:1] == "." else ""
    try:
        name, port = Host.parse(text.removeprefix("."))
    except ValueError as error:
        raise OptionError(f"{text!r} is not a host: {error}; .a.example is all below a.example") from None
    if dot and port:
        raise OptionError(f"{text!r}: a pattern that starts with a dot cannot have a port; leave the port out")
    return f"{name}:{port}" if port else dot + name


def _top(pattern: str, path: str) -> tuple[str, ...]:
    try:
        if path[:1] != "/":
            raise ValueError("it must start with a slash")
        return names_of_path(path.encode().decode("latin-1").split("/"))
    except ValueError as error:
        raise OptionError(f"option 'hosts', {pattern}: {path!r} is not a path: {error}") from None
