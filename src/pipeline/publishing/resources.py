"""Static files of a package, or of any directory, at ``++resource++name@version/path``.

A module that is scanned creates the resources, and its views ask for the addresses of files::

    STATIC = Resources("site", __name__, "static")      # the directory "static" beside this module

    STATIC.url(request, "style.css")       # http://host/++resource++site@0f343b0931126a20/style.css

The version is a hash of all names and contents. So a relative link from one file to another leads to the same
version. Clients and proxies may keep a file of the current version for ever. An address with another version, or
without a version, gets the current file too, but the client must ask for it again each time (the ETag makes that a
304). A redirect to the current version would not do: two servers with two versions behind one address would send a
visitor to and fro.

Files are listed and hashed when the module is imported. A path leads to these files only (S14). A name is left out
if it begins with ".", "_" or the marks of a namespace, because traversal gives such a name another meaning (S3). A
link that leads out of the directory is left out too. A directory has no address. A slash at the end of a file's
address is a 404.

A file may have compressed copies beside it: ``app.js.br``, ``app.js.zst``, ``app.js.gz``. The client gets the
smallest copy that it accepts, so no request has to wait for compression (the element ``compress`` leaves such an
answer alone). A copy is unpacked when the module is imported: one that is not that of its file is not served, and a
warning says so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import sys
from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from webob.exc import HTTPNotFound
from zope.interface import Interface

from pipeline.http.conditional import CONDITIONS
from pipeline.http.encodings import choose, vary
from pipeline.http.error_pages import out_of_descriptors
from pipeline.http.files import (
    BLOCK,
    REPRODUCIBLE,
    FileBody,
    described,
    guessed_type,
    key_of,
    serve,
    validators_of,
)
from pipeline.interfaces import PUBLIC, ConfigurationError, INamespace
from pipeline.publishing import namespaces
from pipeline.request import PATH_SAFE, Request
from pipeline.response import CHECKED, HeaderList, Response, check_headers
from pipeline.views import NOTES, Views

FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "public, no-cache"

ENCODINGS = {".br": "br", ".zst": "zstd", ".gz": "gzip"}
"""Encoding of a compressed copy, by the end of its name."""
PACKAGES = {"br": "brotli", "gzip": "gzip"}
PACKAGES["zstd"] = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
"""Modules that unpack, by the encoding."""

SMALL = 16 * 1024
"""Bytes of a file that is kept in memory: it is sent without being opened, in half of the time."""
MOST_KEPT = 4 * 1024 * 1024
"""Bytes of small files of a directory that are kept."""

_log = logging.getLogger("pipeline.resources")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NO_NAME = (".", "_", "@@", "++")


class IResources(Interface):
    """Interface under which resources stand in the registry. Applications use ``Resources``."""


class Resources:
    """The static files of a directory.

    name       name in the addresses: letters, digits, ``.``, ``_`` and ``-``
    module     ``__name__`` of the module that creates the resources; a ``scan`` of it publishes them
    directory  absolute path, or a path from the directory of that module; ConfigurationError if it is missing
    """

    def __init__(self, name: str, module: str, directory: str | Path) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"resources {name!r}: a name consists of letters, digits, '.', '_' and '-'")
        beside = Path(getattr(sys.modules[module], "__file__", None) or "")
        self.top = os.path.realpath(beside.parent / directory)
        if not os.path.isdir(self.top):
            raise ConfigurationError(f"resources {name!r}: there is no directory {self.top}")
        self.name = name
        self.files = dict(_files(self.top))
        self.copies = dict(_copies(self.files))
        self.described: dict[tuple[Any, ...], HeaderList] = {}
        contents = "".join(f"{path}\0{file.sha256}\0" for path, file in self.files.items())
        self.version = hashlib.sha256(contents.encode()).hexdigest()[:16]
        self.tops = {current: self._top(current) for current in (True, False)}
        self.__module__ = module  # `scan` looks for notes by module
        self.__dict__[NOTES] = (register,)

    def _top(self, current: bool) -> Folder:
        """Return the directory as traversal walks it, for paths with the current version, or for all others."""
        top = Folder()
        for path in self.files:
            *folders, name = path.split("/")
            place = top
            for folder in folders:
                place = place.setdefault(folder, Folder())
            place[name] = Resource(self, path, current)
        return top

    def url(self, request: Request, path: str) -> str:
        """Return the address of a file, with the version. Raise KeyError if there is no such file."""
        if path not in self.files:
            raise KeyError(f"resources {self.name!r}: {self.top} does not publish a file {path!r}")
        place = quote(path, safe="/" + PATH_SAFE)
        return f"{request.application_url}/++resource++{self.name}@{self.version}/{place}"


class File(NamedTuple):
    """A file as it was when the module was imported."""

    path: str
    """The path of the file, with links resolved."""
    sha256: str
    state: tuple[int, ...]
    content: bytes | None = None
    """The bytes of a file that is small enough to be kept."""

    @property
    def size(self) -> int:
        return self.state[2]

    def is_unchanged(self) -> bool:
        try:
            return key_of(os.stat(self.path)) == self.state
        except OSError:
            return False

    def open(self, top: str) -> tuple[FileBody, bool]:
        """Return the open file, and True if it is unchanged. Raise a 404 if it is gone, or leads out of ``top``."""
        try:
            # Without waiting for a writer, if the path is a named pipe by now.
            file = FileIO(self.path, opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0)))
        except OSError as error:
            if out_of_descriptors(error):
                raise
            raise HTTPNotFound("There is no such file.") from None
        found = os.fstat(file.fileno())
        if key_of(found) == self.state:
            return FileBody(file, found.st_size, found), True
        if stat.S_ISREG(found.st_mode) and _is_at(self.path, top, found):
            return FileBody(file, found.st_size, found), False
        file.close()
        raise HTTPNotFound("There is no such file.")


class Resource(NamedTuple):
    """The file that the path of a request leads to."""

    resources: Resources
    path: str
    current: bool
    """True if the path has the current version."""


def register(views: Views, resources: Resources) -> None:
    """Publish the files of a directory. The scan of the module that creates the resources calls this."""
    views.add_named(resources, IResources, resources.name)
    views.add_adapter(Namespace, Interface, INamespace, "resource")
    views.add(show, Resource, "", ("GET",), None, PUBLIC)


def _describe(resources: Resources, path: str, file: File, current: bool, encoding: str, answer: Response) -> None:
    """Put the headers of an unchanged file, or of a compressed copy, on the answer. They are made once for each set
    of headers that outer elements send."""
    listed = answer.headerlist
    key = (path, file.path, current, *listed)
    found = resources.described.get(key)
    if found is None:
        name, cache = path.rpartition("/")[2], FOR_EVER if current else ASK_AGAIN
        modified = file.state[3] / 1e9
        validators = validators_of(None, file.sha256[:32], modified if modified > REPRODUCIBLE else None)
        found = described(_type_of(path), name, file.size, validators, inline=True, cache=cache)
        found += [("Content-Encoding", encoding)] if encoding else []
        check_headers(found)
        CHECKED.update(found)
        answer.adopt(answer.status, found, answer.blocks)
        if path in resources.copies:
            vary(answer.headerlist)
        if CHECKED.issuperset(listed):  # else one of them is of this request alone
            resources.described[key] = answer.headerlist.copy()
    else:
        listed[:] = found


def show(resource: Resource, request: Request, response: Response) -> None:
    """Serve a static file. A browser may show it, because the file belongs to the site."""
    resources, path, current = resource
    environ = request.environ
    if environ["PATH_INFO"].endswith(("/", "/.")):  # relative links in the file would be wrong
        raise HTTPNotFound("There is no such file.")
    found, encoding = resources.files[path], ""
    unchanged = found.is_unchanged()
    if unchanged and path in resources.copies:
        copies = resources.copies[path]
        encoding, _ = choose(environ.get("HTTP_ACCEPT_ENCODING", ""), tuple(copies))
        if encoding and copies[encoding].is_unchanged():
            found = copies[encoding]
        else:
            encoding = ""
    if unchanged and found.content is not None:
        response.blocks = [found.content]
    else:
        body, unchanged = found.open(resources.top)
        if not unchanged:  # it is not as it was when the module was imported
            kind, name = _type_of(path), path.rpartition("/")[2]
            serve(request, response, body.file, content_type=kind, name=name, inline=True, cache=ASK_AGAIN)
            if encoding:  # a newer copy has just replaced it
                response.headers["Content-Encoding"] = encoding
            if path in resources.copies:
                vary(response.headerlist)
            return
        body.is_described = True
        response.blocks = body
    _describe(resources, path, found, current, encoding, response)
    response.conditional_response = not environ.keys().isdisjoint(CONDITIONS)


class Folder(UserDict[str, Any]):
    """A directory of resources on the way to a file: the directories and files in it by name. It has no view."""


class Namespace(namespaces.Namespace):
    """``++resource++name`` and ``++resource++name@version``."""

    anywhere = True

    def step(self, request: Request, name: str) -> Folder:
        name, _, version = name.partition("@")
        found = namespaces.registered(request, IResources, name)
        top: Folder = found.tops[version == found.version]
        return top


def _files(top: str) -> Iterator[tuple[str, File]]:
    """Yield the files below a directory with their relative paths, in order."""
    left = MOST_KEPT
    for place, folders, names in os.walk(top, onerror=_refuse):
        folders[:] = sorted(filter(_is_name, folders))
        for name in sorted(filter(_is_name, names)):
            path = os.path.realpath(os.path.join(place, name))
            if not _inside(top, path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                state = key_of(os.fstat(file.fileno()))
                digest = hashlib.sha256(content := file.read(SMALL + 1))
                while block := file.read(BLOCK):
                    digest.update(block)
            is_kept = len(content) <= min(SMALL, left)
            left -= len(content) * is_kept
            rest = os.path.relpath(os.path.join(place, name), top)
            yield rest.replace(os.sep, "/"), File(path, digest.hexdigest(), state, content if is_kept else None)


def _copies(files: dict[str, File]) -> Iterator[tuple[str, dict[str, File]]]:
    """Yield each file that has compressed copies, with these by encoding, smallest first."""
    for path, file in files.items():
        copies = {}
        for ending, encoding in ENCODINGS.items():
            copy = files.get(path + ending)
            if copy is None or copy.size >= file.size:
                continue
            left_out = f"{copy.path} is not served, since it"
            try:
                text = unpacked(encoding, Path(copy.path).read_bytes())
            except ImportError as error:
                _log.debug("%s cannot be compared with its file: %s", left_out, error)  # the extra is optional
                continue
            if hashlib.sha256(text).hexdigest() == file.sha256:
                copies[encoding] = copy
            else:
                _log.warning("%s is not that of %s: compress it again", left_out, file.path)
        if copies:
            yield path, dict(sorted(copies.items(), key=lambda item: item[1].size))


def unpacked(encoding: str, data: bytes) -> bytes:
    """Return the bytes that were compressed; b"" if ``data`` is damaged.

    encoding  that of HTTP: gzip, br or zstd

    ImportError names the package that is missing.
    """
    package = import_module(PACKAGES[encoding])
    try:
        return bytes(package.decompress(data))
    except Exception:  # each package has a class of its own for damaged data
        return b""


def _type_of(path: str) -> str | None:
    """Return the content type of a text file, in UTF-8. Return None for others: ``serve`` finds their type."""
    kind = guessed_type(path)
    return f"{kind}; charset=UTF-8" if kind.startswith("text/") else None


def _is_name(name: str) -> bool:
    return not name.startswith(_NO_NAME) and name.isprintable()


def _inside(top: str, path: str) -> bool:
    return path.startswith(os.path.join(top, ""))


def _is_at(path: str, top: str, found: os.stat_result) -> bool:
    """Return whether the open file still stands at the path, inside ``top``. The path may be a link by now."""
    now = os.path.realpath(path)
    try:
        return _inside(top, now) and os.path.samestat(os.lstat(now), found)
    except OSError:
        return False


def _refuse(error: OSError) -> None:
    raise error
