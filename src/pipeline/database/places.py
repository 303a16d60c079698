"""The places of databases, read from their URIs: files, directories and servers. Nothing is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pipeline.interfaces import Facts

PORTS = {"zeo": 9991, "postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306}
PORTS |= {"redis": 6379, "rediss": 6379, "memcached": 11211}
"""The port of each kind of server, if the URI has none."""
OF_ZODB = ("file", "memory", "demo", "zeo", "zconfig")
"""Schemes of the storages of ZODB and ZEO; the others are those of RelStorage."""
OF_ONE_PROCESS = ("file", "memory", "demo")
"""Schemes of object databases that one process has for itself."""
ALONE = (
    "one process has {} for itself. Several share a database server: zeo:// or postgres:// (docs/howto/data.rst)"
)
DIRECTORIES = ("blobstorage_dir", "blob_dir", "cache_local_dir")
"""Options of URIs that name a directory."""


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI, without a driver as SQLAlchemy has it."""
    return uri.partition(":")[0].partition("+")[0]


def files_of(uri: str) -> Iterator[str]:
    """Yield the files that the URI of an object database names, and the directories, with a slash at the end."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and (path := parts.netloc + parts.path):  # file://Data.fs is a relative path
        yield unquote(path)
    if parts.scheme == "sqlite" and parts.path:
        yield f"{unquote(parts.path)}/"
    options = dict(parse_qsl(parts.query))
    yield from (f"{options[name]}/" for name in DIRECTORIES if options.get(name))


def facts_of_uris(uris: Iterable[str], probe: Callable[[Any], object]) -> Facts:
    """Return what an operator must know of an element with these object databases."""
    uris = [uri for uri in uris if uri]
    alone = [uri.partition("?")[0] for uri in uris if scheme_of(uri) in OF_ONE_PROCESS]
    return Facts(
        writes=[file for uri in uris for file in files_of(uri)],
        servers=[server for uri in uris for server in servers_of(uri)],
        one_process=ALONE.format(alone[0]) if alone else "",
        probe=probe,
    )


def sqlite_file(url: str) -> str | None:
    """Return the file of a URL of SQLAlchemy, or None."""
    path = unquote(url.partition("?")[0].partition(":///")[2])
    return path if scheme_of(url) == "sqlite" and path and not path.startswith((":", "file:")) else None


def servers_of(uri: str) -> Iterator[str]:
    """Yield the server of a URI as "host:port". A UNIX socket is not one."""
    try:
        parts = urlsplit(uri)
        port = parts.port or PORTS.get(scheme_of(uri))
    except ValueError:  # the port is not valid: the driver says so when it connects
        return
    if parts.hostname and port:
        yield f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"
