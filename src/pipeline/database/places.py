"""The places of databases, read from their URIs: files, directories, servers. New files are private."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pipeline.interfaces import Facts

log = logging.getLogger("pipeline.database")

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
DIRECTORIES = ("blobstorage_dir", "blob_dir", "cache_local_dir", "data_dir", "var")
"""Options of URIs that name a directory: of blobs, of SQLite, or of the caches of RelStorage and of ZEO."""


OF_FILES = ("file", "memory", "sqlite")
"""Schemes of URIs without a user. A path may have an "@"."""
MASK = "***"
ENCODE = (
    "(what it says quotes a part of the password, and is not shown; in a URI these characters of a password are "
    "written: / %2F, ? %3F, # %23, @ %40, : %3A, % %25, and in an ini each % is doubled)"
)


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI, without a driver as SQLAlchemy has it."""
    return uri.partition(":")[0].partition("+")[0]


def files_of(uri: str) -> Iterator[str]:
    """Yield the files that the URI of an object database names, and the directories, with a slash at the end."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and (path := parts.netloc + parts.path):  # file://Data.fs is a relative path
        yield unquote(path)
    options = dict(parse_qsl(parts.query))
    yield from (f"{options[name]}/" for name in DIRECTORIES if options.get(name))


def make_directories(uri: str) -> None:
    """Make the directories that a URI names, each private to its owner: they have what is stored (S26)."""
    for name in files_of(uri):
        if name.endswith("/"):
            os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(name, 0o700)
    options = dict(parse_qsl(urlsplit(uri).query))
    if data_dir := options.get("data_dir"):
        make_file(f"{data_dir}/main.sqlite3")
    if uri.startswith("zeo:") and (client := options.get("client")):  # then ZEO keeps its cache in a file
        from ZEO.cache import ZEC_HEADER_SIZE, magic  # type: ignore[import-untyped]

        place = os.path.join(options.get("var", ""), f"{client}-{options.get('storage', 1)}.zec")
        make_file(place, begin=magic.ljust(ZEC_HEADER_SIZE, b"\0"))
    if (cache := options.get("cache_local_dir")) and os.stat(cache).st_mode & 0o077:
        log.warning("others may read %s, where RelStorage keeps what it has loaded: chmod 700 %s", cache, cache)


def make_file(path: str, mode: int = 0o600, begin: bytes = b"") -> None:
    """Make a file, unless there is one: a database that made it itself would let others read it (S26)."""
    with suppress(FileExistsError):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        os.write(file, begin)
        os.close(file)


def is_at(opened: os.stat_result, path: str | os.PathLike[str]) -> bool:
    """Return whether the file at a path is the one that was opened."""
    with suppress(FileNotFoundError):
        return os.path.samestat(opened, os.stat(path))
    return False


def facts_of_uris(uris: Iterable[str], probe: Callable[[Any], object]) -> Facts:
    """Return what an operator must know of an element with these object databases."""
    named = list(uris)
    uris = [uri for uri in named if uri]
    alone = [uri.partition("?")[0] for uri in uris if scheme_of(uri) in OF_ONE_PROCESS]
    return Facts(
        writes=[file for uri in uris for file in files_of(uri)],
        servers=[server for uri in uris for server in servers_of(uri)],
        one_process=ALONE.format(alone[0]) if alone else "",
        probe=probe,
        may_be_behind=uris != named or "zeo" in map(scheme_of, uris),  # one of the application may be any
    )


def sqlite_file(url: str) -> str | None:
    """Return the file of a URL of SQLAlchemy, or None."""
    place, _, query = url.partition("?")
    path, options = unquote(place.partition(":///")[2]), dict(parse_qsl(query.lower()))
    if path.startswith("file:") and options.get("uri") in ("true", "1") and options.get("mode", "rwc") == "rwc":
        path = urlsplit(path).path
    return path if scheme_of(url) == "sqlite" and path and not path.startswith((":", "file:")) else None


def servers_of(uri: str) -> Iterator[str]:
    """Yield the servers of a URI as "host:port". A UNIX socket is not one."""
    try:
        parts = urlsplit(uri)
        port = parts.port or PORTS.get(scheme_of(uri))
    except ValueError:  # the port is not valid: the driver says so when it connects
        return
    if parts.hostname and port:
        yield f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"
    query = parse_qsl(parts.query)
    hosts = [host for name, value in query if name == "host" for host in value.split(",")]
    ports = dict(query).get("port", "").split(",")
    for host, own in zip_longest(hosts, ports[: len(hosts)]):
        if not host.startswith("/"):
            yield host if ":" in host else f"{host}:{own or port}"


def hosts_of(url: Any) -> list[dict[str, Any]]:
    """Return the arguments of connecting to each of several hosts in a URL: host=db1:3306&host=db2."""
    named = url.query.get("host")
    pairs = (one.partition(":") for one in named) if isinstance(named, tuple) else ()
    return [{"host": host, **({"port": int(port)} if port else {})} for host, _, port in pairs]


def loggable_uri(uri: str) -> str:
    """Return a URI as it may stand in a log: without user, password and options. All before the last "@" may be a
    password, whatever stands in it. A URI that is not valid is masked as a whole."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return MASK
    if scheme not in OF_FILES:
        rest = rest.rpartition("@")[2]
    place = re.split("[?#]", rest, maxsplit=1)[0]
    is_valid = re.fullmatch(r"(\[[^]/]*\]|[^:/]*)(:[0-9]*)?(/.*)?", place, re.DOTALL)
    return f"{scheme}://{place if is_valid else MASK}"


def without_secrets(text: str, *uris: str) -> str:
    """Return a text, such as that of an error, without the secrets of the URIs. If the text quotes a part of a
    password, it is not shown."""
    for uri in uris:
        text = text.replace(uri, loggable_uri(uri))
        scheme, _, rest = uri.partition("://")
        password = "" if scheme in OF_FILES else rest.rpartition("@")[0].partition(":")[2]
        for whole in filter(None, (password, unquote(password))):
            text = text.replace(whole, MASK)
        parts = re.split("[/?#@:%]", password)
        if len(parts) > 1 and any(part and part in text for part in parts):
            return ENCODE
    return text
