"""``shield``: headers by which browsers protect the visitors of a site."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from pipeline.composition import Offers, element
from pipeline.http.content_policy import NAME, REPORT_ONLY, hash_of, joined, with_sources, written
from pipeline.http.html_head import RAW_TEXT, Incomplete, find, markup
from pipeline.http.origins import mount_at, mount_of
from pipeline.interfaces import Facts, Handler
from pipeline.ranges import at_least
from pipeline.request import Request
from pipeline.response import CHECKED, NOSNIFF, HeaderList, Response, check_headers

log = logging.getLogger("pipeline")

SOURCES = {
    "default-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
TEMPLATES = (".html", ".htm", ".jinja", ".jinja2", ".j2", ".pt")
"""The ends of the names of templates."""
_IN_THE_PAGE = ("script-src", "style-src")
_SLASHES = re.compile(r"/(?:\.?/)+")
_NOT_IN_A_SOURCE = re.compile(r"[\s;,\x00-\x1f\x7f]")
_VALUE = re.compile(r"\{[{%#]")


class ShieldRequest(Request):
    """The attributes that ``shield`` adds to a request."""

    __unkept__: Any = (("shield_nonce", lambda nonce: "it has a nonce, which is new for each answer (S24)"),)
    shield_policy: tuple[str, str] = (NAME, "")
    """The header with the policy of the site: its name, and its value."""
    shield_nonce: str = ""
    """The nonce of this answer, once a template has asked for it."""

    @property
    def csp_nonce(self) -> str:
        """A text that is new for each answer: ``<script nonce="{{ request.csp_nonce }}">`` is a script that runs,
        and a script that a visitor has smuggled into the page does not.

        A page that uses it is not stored by caches (``Cache-Control: no-store``), unless the view says otherwise.
        """
        self.shield_nonce = self.shield_nonce or token_urlsafe(18)
        nonce = f"'nonce-{self.shield_nonce}'"
        headers = self.environ["pipeline.response"].headers
        if nonce not in headers.get(self.shield_policy[0], ""):  # it may be that an error has taken it back
            allow(self, _IN_THE_PAGE, nonce)
            said = headers.get("Cache-Control")
            if said is None or (said == "private" and self.principal is not None):  # authenticate says that
                headers["Cache-Control"] = "no-store"
        return self.shield_nonce

    def allow_source(self, directive: str, *sources: str) -> None:
        """Allow further sources for this answer: ``request.allow_source("img-src", "https://tiles.example.com")``.

        Call it before the first block of the body is made. A view that sets the header itself says all of it.
        """
        for word in (directive, *sources):
            if not word or _NOT_IN_A_SOURCE.search(word):
                raise ValueError(f"allow_source: {word!r} is not a word of a policy, without a blank, ';' and ','")
        allow(self, (directive,), " ".join(sources))


def allow(request: ShieldRequest, directives: tuple[str, ...], sources: str) -> None:
    """Add sources to some directives of each policy of one answer. A browser obeys all of them."""
    headers = request.environ["pipeline.response"].headers
    name, usual = request.shield_policy
    headers[name], *further = [with_sources(one, directives, sources) for one in headers.getall(name) or [usual]]
    for policy in further:
        headers.add(name, policy)


def facts(*, inline: tuple[str, ...], report_only: bool, **options: object) -> Facts:
    """Return what an operator must know."""
    why = "the Content-Security-Policy of shield is only reported, so it stops no script", "Set report_only = false"
    return Facts(packages=inline, advice=(why,) if report_only else ())


@element(
    adds=ShieldRequest,
    facts=facts,
    provides=("content_policy",),
    inside={"vhost": "vhost knows if the visitor uses https"},
    outside={
        "retry": "the headers are put once, not once per attempt",
        "errors": "an error page has secure headers, too",
    },
)
def shield(
    next: Handler,
    *,
    sources: dict[str, str] | None = None,
    inline: tuple[str, ...] = (),
    policies: dict[str, str] | None = None,
    report_only: bool = False,
    referrer: str = "same-origin",
    opener: str = "same-origin",
    hsts: int = 31_536_000,
) -> Offers:
    """Send headers by which browsers protect visitors (S24). A header that a view or an inner element sends counts.

    sources      lines "directive = sources" of the Content-Security-Policy. Each replaces the line of the default:
                 default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'
    inline       packages whose templates have scripts and style sheets in the page. They are allowed by the hashes
                 of their texts, which are made at load
    policies     lines "/path = policy" for applications that are mounted there: the Content-Security-Policy of that
                 path and below, as a whole; "/path =" leaves it to the application
    report_only  whether browsers only report what the policy forbids, for a site that has not had one before
    referrer     the Referrer-Policy: which sites are told the address of a page. Empty sends none
    opener       the Cross-Origin-Opener-Policy: which sites may hold on to a window with a page. Empty sends none
    hsts         seconds for which browsers use https alone, sent with answers by https (Strict-Transport-Security);
                 0 sends none. It cannot be taken back before the time is over

    Every answer has ``X-Content-Type-Options: nosniff`` as well. A script or a style sheet with values of a
    template takes the nonce of the answer (``request.csp_nonce``). A view allows more for its own answer by
    ``request.allow_source``, or sets the header itself. Attributes with code, such as ``onclick``, never run.
    Stands outside ``errors`` and inside ``vhost``. Provides the content policy.
    """
    content_policy = REPORT_ONLY if report_only else NAME, policy_of(sources or {}, inline)
    always: HeaderList = [NOSNIFF]
    always += [("Referrer-Policy", referrer)] if referrer else []
    always += [("Cross-Origin-Opener-Policy", opener)] if opener else []
    at_least(0, hsts=hsts)
    of_https: HeaderList = [("Strict-Transport-Security", f"max-age={hsts}")] if hsts else []

    def with_policy(value: str) -> tuple[HeaderList, HeaderList]:
        """Return the headers of http and of https with a policy."""
        plain = [(content_policy[0], value), *always] if value else always
        secure = [*plain, *of_https]
        check_headers(secure)
        CHECKED.update(secure)
        return plain, secure

    usual = with_policy(content_policy[1])
    mounts = {mount_at("policies", path): value for path, value in (policies or {}).items()}
    at = {path: with_policy(" ".join(value.split())) for path, value in mounts.items()}
    of_mounts = [pair for plain, _ in at.values() for pair in plain if pair[0] == content_policy[0]]

    def shield(request: ShieldRequest, response: Response) -> None:
        plain, secure = usual
        if at:
            # Traversal, switch and URLMap take several slashes for one, and the first two pass over "/./".
            asked = _SLASHES.sub("/", request.environ.get("PATH_INFO", ""))
            if (path := mount_of(asked, at)) is not None:
                plain, secure = at[path]
                request.shield_policy = plain[0] if plain is not always else (content_policy[0], "")
            elif "/../" in f"{asked}/":  # of an application that goes up: browsers obey all policies
                plain, secure = [*plain, *of_mounts], [*secure, *of_mounts]
        headers = secure if request.environ["wsgi.url_scheme"] == "https" else plain
        listed = response.headerlist
        if len(listed) > 1:  # an outer element has sent some
            sent = {name.lower() for name, _ in listed}
            headers = [pair for pair in headers if pair[0].lower() not in sent]
        listed += headers
        next(request, response)
        if report_only and NAME in response.headers:  # a page with a policy of its own, such as an error page
            response.headers.pop(REPORT_ONLY, None)

    return Offers(shield, shield_policy=content_policy)


def policy_of(sources: dict[str, str], inline: tuple[str, ...]) -> str:
    """Return the policy of a site: the default, with the sources of the site, and the texts in its templates."""
    policy = SOURCES | {name.lower(): value for name, value in sources.items()}
    for package in inline:
        for kind, text in in_pages(package):
            name = f"{kind}-src"
            policy[name] = joined((policy.get(name, policy["default-src"]), hash_of(text)))
    return written(policy)


def in_a_page(page: str) -> Iterator[tuple[str, int, str]]:
    """Yield kind, line and text of the scripts and style sheets in a page, as a browser finds them.

    The parser of the standard library differs from browsers by its version: in where a script ends, and in the
    elements that have no tags in them. Left out is what differs within ``<svg>`` and ``<math>``.
    """
    text, place = page.encode(), 0
    with suppress(Incomplete):
        while (start := text.find(b"<", place)) >= 0:
            name, attributes, place = markup(text, start)
            if name == b"plaintext":
                return
            if name in RAW_TEXT:
                begin, place = place, find(RAW_TEXT[name], text, place).start()
                if name in (b"script", b"style") and attributes.keys().isdisjoint((b"nonce", b"src")):
                    yield name.decode(), text.count(b"\n", 0, start) + 1, text[begin:place].decode()


def in_pages(package: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each script and style sheet in the templates of a package.

    Those with a nonce and those from a file are left out, and so are those with values: they differ with each page.
    """
    found = find_spec(package)
    places = [] if found is None else list(found.submodule_search_locations or [])
    if not places:
        raise ValueError(f"inline: {package!r} is not a package that can be imported")
    for file in sorted(file for place in places for file in Path(place).rglob("*") if file.suffix in TEMPLATES):
        for kind, line, inner in in_a_page(file.read_text(encoding="utf-8")):
            if _VALUE.search(inner) or (kind == "script" and "<!--" in inner):
                log.warning(
                    "shield: browsers will refuse the <%s> of %s, line %d: its text differs with each page, or has "
                    '<!--. Write <%s nonce="{{ request.csp_nonce }}">', kind, file, line, kind,
                )
                continue
            yield kind, inner
