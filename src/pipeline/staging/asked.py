"""One request to a site: as a corpus has it, as a page leads to it, and as an access log has it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from io import BytesIO
from string import punctuation
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit

from webob import Request
from webob.multidict import MultiDict

from pipeline.interfaces import ConfigurationError
from pipeline.telling.secrets import masked_query

if TYPE_CHECKING:  # it needs ZODB
    from pipeline.staging.runs import Run

OWN_ORIGIN = "own"
"""Stands for the address of the site, in a header that says where a form comes from."""
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
BOUNDARY = "----------prove"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
NUMBER = re.compile(r"\d+")
WORD = re.compile(r"[^\W\d_]+|prove\d+")
"""A word, or one of ours that has got a number."""


class Asked(NamedTuple):
    """One request."""

    method: str
    url: str
    """Path and query, percent-encoded."""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    """The user that asks, without a password; None is the user of the site, and "" is an anonymous visitor."""
    page: str = ""
    """The page whose form it is sent by, or ""."""
    tokens: tuple[str, ...] = ()
    """The fields whose values its page has made, against requests of other sites. They are as secret as cookies."""

    def __str__(self) -> str:
        return f"{self.method} {masked_query(self.url)}"

    def environ(self, origin: str) -> dict[str, Any]:
        """Return the environ of the request, as a server makes it.

        origin  address of the site, such as http://localhost
        """
        headers = {name: origin if value == OWN_ORIGIN else value for name, value in self.headers}
        made = Request.blank(self.url, base_url=origin, method=self.method, headers=headers)
        environ: dict[str, Any] = made.environ
        environ["REMOTE_ADDR"] = "127.0.0.1"
        environ |= {"wsgi.input": BytesIO(self.body), "webob.is_body_seekable": True}  # WebOb needs no file for it
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            environ["CONTENT_LENGTH"] = str(len(self.body))
        return environ

    @property
    def is_safe(self) -> bool:
        """True if it may change nothing."""
        return self.method in ("GET", "HEAD")

    @property
    def alike(self) -> str:
        """Method and path without numbers: the objects of a folder are asked alike."""
        return f"{self.method} {NUMBER.sub('N', urlsplit(self.url).path)}"

    @property
    def kind(self) -> str:
        """The type of its body."""
        return dict(self.headers).get("Content-Type", "")

    @property
    def fields(self) -> list[tuple[str, Any]]:
        """The fields of its form, the values in its JSON, or the fields of its query if it has no body. A file is
        a pair of its name and its content."""
        if self.kind == JSON:
            return list(leaves(json.loads(self.body or b"null")))
        if self.kind == MULTIPART:
            return list(parts(self.body))
        text = self.body.decode("latin-1") if self.kind == FORM else self.url.partition("?")[2]
        return parse_qsl(text, keep_blank_values=True)

    def with_fields(self, fields: Sequence[tuple[str, Any]]) -> Asked:
        """Return the request with these values, in the order of ``fields``."""
        if self.kind == JSON:
            values = iter([value for _, value in fields])
            return self._replace(body=json.dumps(refilled(json.loads(self.body or b"null"), values)).encode())
        if self.kind == MULTIPART:
            return self._replace(body=multipart(fields))
        if self.kind == FORM:
            return self._replace(body=urlencode(fields).encode())
        if self.is_safe and fields:
            return self._replace(url=f"{self.url.partition('?')[0]}?{urlencode(fields)}")
        return self

    def with_headers(self, changed: Mapping[str, str]) -> Asked:
        """Return the request with other values of headers."""
        kept = [pair for pair in self.headers if pair[0] not in changed]
        return self._replace(headers=(*kept, *changed.items()))


OWN = (("Origin", OWN_ORIGIN), ("Sec-Fetch-Site", "same-origin"))
"""The headers that a browser sends with a form of the site."""


def asked(
    method: str, url: str, fields: Any = (), *, kind: str = FORM, user: str | None = None, page: str = ""
) -> Asked:
    """Return the request that a browser makes for a link, or for a form with these fields.

    fields  names and values; with the kind JSON any value
    """
    made = Asked(method, url, user=user, page=page)
    if made.is_safe:
        return made.with_fields(fields)
    if method == "DELETE" and kind == FORM:
        return made._replace(headers=OWN)
    made = made._replace(headers=(*OWN, ("Content-Type", kind)))
    return made._replace(body=json.dumps(fields).encode()) if kind == JSON else made.with_fields(fields)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a value of JSON, each with its path, such as ``lines/0/count``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield name, value
    for key, inner in items:
        yield from leaves(inner, f"{name}/{key}".lstrip("/"))


def refilled(shape: Any, values: Iterator[Any]) -> Any:
    """Return a value of JSON with others in the place of its ``leaves``."""
    if shape and isinstance(shape, dict):
        return {key: refilled(inner, values) for key, inner in shape.items()}
    if shape and isinstance(shape, list):
        return [refilled(inner, values) for inner in shape]
    return next(values)


def parts(body: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the fields in the body of a form with files."""
    for part in body.decode("utf-8", "replace").split(f"--{BOUNDARY}")[1:-1]:
        head, _, value = part.removesuffix("\r\n").partition("\r\n\r\n")
        _, name, more, *others = head.split('"')
        yield name, (others[0], value) if more.startswith("; filename") else value


def multipart(fields: Sequence[tuple[str, Any]]) -> bytes:
    """Return the body of a form with files, with quotes in their names as browsers write them."""
    quoted = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
    sent = [(name, (one[0].translate(quoted), one[1]) if isinstance(one, tuple) else one) for name, one in fields]
    body: bytes = Request.blank("/", POST=MultiDict(sent), content_type=MULTIPART).body
    return body


def with_values(request: Asked, change: Callable[[Any], Any]) -> Asked:
    """Return a request with other values in the fields of its form, its JSON or its query, but for its tokens."""
    fields = request.fields
    return request.with_fields([(name, old if name in request.tokens else change(old)) for name, old in fields])


def numbered(request: Asked, number: int) -> Asked:
    """Return a request with words in its fields that no other object has."""
    return with_values(
        request, lambda old: f"{old}{number}" if isinstance(old, str) and WORD.fullmatch(old) else old
    )


LINKED = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
"""The attribute of an HTML element that has a link."""


class Tags(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        """The name and the attributes of each; of two with one name a browser takes the first."""
        self.scripts = ""
        self.feed(page.decode("utf-8", "replace"))
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in reversed(attributes)}))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts += data

    def hidden(self) -> dict[str, str]:
        """Return the values of the hidden fields by their names."""
        hidden = [given for tag, given in self.found if tag == "input" and given.get("type") == "hidden"]
        return {one["name"]: one.get("value", "") for one in hidden if one.get("name")}


def links_of(origin: str, url: str, run: Run) -> list[str]:
    """Return the links of a page that stay in the site, but for those to itself."""
    if "html" not in run.header("Content-Type") or run.header("Content-Encoding"):
        return []
    tags = Tags(run.body).found
    base = next((given["href"] for tag, given in tags if tag == "base" and "href" in given), "")
    links = filter(None, (given.get(LINKED.get(tag, "")) for tag, given in tags))
    found = dict.fromkeys(of_this_site(origin, url, urljoin(base, link)) for link in links)
    return [one for one in found if one is not None and one != url]


def of_this_site(origin: str, url: str, link: str) -> str | None:
    """Return the path and query of a link on the page of a URL, or None if it leads out of the site."""
    with suppress(ValueError):
        found = urlsplit(urljoin(origin + url, link.strip()))
        host = urlsplit(origin).netloc
        # Zope writes the port into its links.
        if found.scheme in ("http", "https") and found.netloc in (host, f"{host}:80"):
            text = (found.path or "/") + (f"?{found.query}" if found.query else "")
            return quote(text, safe=punctuation)  # as a browser sends other letters
    return None


class Logged(NamedTuple):
    """One request of an access log."""

    asked: Asked
    status: int
    view: str
    """The view that has answered it, or its URL; "" if it was refused, and no view was found."""

    @property
    def kind(self) -> tuple[str, str, int]:
        """Requests of one kind are answered by the same view with the same status."""
        return self.asked.method, self.view, self.status


def read_log(path: str) -> Iterator[Logged]:
    """Yield the requests of an access log in JSON (``format = json`` of the element log). A body is not in the
    log, so these are GET and HEAD."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                method, url, status = entry["method"], entry["url"], int(entry["status"])
            except (ValueError, LookupError, TypeError):
                raise ConfigurationError(
                    f"{path}, line {number}: it is not a line of an access log in JSON, which the element log "
                    f"writes with format = json"
                ) from None
            if method in ("GET", "HEAD") and str(url).startswith("/"):
                user, agent = entry.get("user") or "-", str(entry.get("agent") or "")
                accept = "text/html,*/*;q=0.8" if agent.startswith("Mozilla/") else "*/*"
                headers = (("Accept", accept), *([("User-Agent", agent)] if agent else []))
                asked = Asked(method, url, b"", headers, "" if user == "-" else user)
                is_refused = "view" in entry and status >= 400  # by an element: any URL may be asked
                yield Logged(asked, status, entry.get("view") or ("" if is_refused else unquote(url)))
