"""``cors``: pages of other origins may ask this site from their scripts."""

from __future__ import annotations

from typing import Any

from pipeline.composition import element
from pipeline.cookies import TOKEN
from pipeline.http.encodings import vary
from pipeline.http.header_lists import OF_EVERY_ANSWER
from pipeline.http.hosts import Host
from pipeline.http.origins import LET_IN
from pipeline.interfaces import Handler, OptionError
from pipeline.ranges import at_least, words_of
from pipeline.request import Request
from pipeline.response import Response

FORBIDDEN = "403 Forbidden"
OF_FORMS = ("", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""The types of bodies that a form of any page can send, without having been allowed to."""


@element(
    inside={"vhost": "a host that is not served is refused first"},
    outside={
        "retry": "it is asked once, not once per attempt",
        "database": "a question whether a request may be sent opens no connection",
        "errors": "a script may read an error page, too",
    },
)
def cors(
    next: Handler,
    *,
    origins: tuple[str, ...],
    with_cookies: tuple[str, ...] = (),
    methods: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
    headers: tuple[str, ...] = ("Authorization", "Content-Type", "If-Match", "If-None-Match"),
    expose: tuple[str, ...] = ("ETag", "Link", "Location", "Retry-After", "X-Outcome", "X-Request-ID"),
    max_age: int = 600,
) -> Handler:
    """Let scripts of other origins send requests and read the answers (CORS, Fetch standard).

    origins       origins whose scripts may ask without cookies: https://app.example.com, or * for all
    with_cookies  origins whose scripts may also send the cookies of the visitor, and so act as the visitor
    methods       methods that they may use
    headers       headers that they may send
    expose        headers of the answer that they may read, beside those that any script reads
    max_age       seconds for which a browser keeps what it was told before a request

    An unsafe request of such a script is let in (S23). What a page of another origin sends by a form stays refused.
    If ``with_cookies`` does not name the origin, so does a request with a cookie, with a password that the browser
    knows, or of a user whom a proxy names. The question that a browser asks before (a preflight) is answered here,
    and reaches no database. Other answers are the same as without this element, but for their headers.
    """
    trusted = frozenset(with_cookies)
    by_name = trusted.union(one for one in origins if one != "*")
    for one in by_name:
        if one != as_sent(one):
            what = "in small letters, without a path, and without the port of the scheme"
            raise OptionError(f"{one!r} is not an origin as browsers send it, {what}: https://app.example.com")
    at_least(0, max_age=max_age)
    told = ", ".join(words_of("expose", expose, TOKEN, "a header"))
    exposed = {"Access-Control-Expose-Headers": told} if told else {}
    of_others = {"Access-Control-Allow-Origin": "*", **exposed} if "*" in origins else {}
    of_origin = {one: {"Access-Control-Allow-Origin": one, **exposed} for one in by_name}
    for one in trusted:
        of_origin[one]["Access-Control-Allow-Credentials"] = "true"
    OF_EVERY_ANSWER.update(of_others, *of_origin.values())
    known = [name.lower() for name in words_of("headers", headers, TOKEN, "a header")]
    said_before = {
        "Access-Control-Allow-Methods": ", ".join(words_of("methods", methods, TOKEN, "a method")),
        "Access-Control-Allow-Headers": ", ".join(headers),
        "Access-Control-Max-Age": str(max_age),
    }

    def answer_before(environ: dict[str, Any], response: Response, allowed: bool) -> None:
        """Answer the question whether a request may be sent."""
        asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")[:4096].lower().split(",")
        if not allowed:
            response.plain(FORBIDDEN, "This origin is not among those that may ask this site.")
        elif environ["HTTP_ACCESS_CONTROL_REQUEST_METHOD"] not in methods:
            response.plain(FORBIDDEN, "This method is not among those that other origins may use.")
        elif any(name.strip() not in known for name in asked if name.strip()):
            response.plain(FORBIDDEN, "A header is not among those that other origins may send.")
        else:
            response.status = "204 No Content"
            response.headers.update(said_before)

    def cors(request: Request, response: Response) -> None:
        environ = request.environ
        origin = environ.get("HTTP_ORIGIN", "")
        said = of_origin.get(origin, of_others)
        allowed = bool(origin and said)
        if environ["REQUEST_METHOD"] == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            answer_before(environ, response, allowed)
        else:
            asks = allowed and environ["REQUEST_METHOD"] in methods  # a browser sends a POST of text without asking
            if asks and is_of_a_script(environ) and (origin in trusted or not has_credentials(environ)):
                environ[LET_IN] = origin in trusted
            try:
                next(request, response)
            finally:
                environ.pop(LET_IN, None)
        response.headers.update(said)  # also without an origin, since a cache keeps one answer for all
        if by_name:
            vary(response.headerlist, "Origin")

    return cors


def as_sent(origin: str) -> str:
    """Return an origin as browsers send it, or "" if it is not one."""
    scheme, _, host = origin.partition("://")
    try:
        return f"{scheme}://{Host.parse(host).written(scheme)[0]}"
    except (ValueError, KeyError):
        return ""


def is_of_a_script(environ: dict[str, Any]) -> bool:
    """Return whether a browser sends a request for a script that was to be allowed, and not for a form."""
    mode = environ.get("HTTP_SEC_FETCH_MODE")
    if mode is not None:
        return bool(mode == "cors")
    return environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() not in OF_FORMS


def has_credentials(environ: dict[str, Any]) -> bool:
    """Return whether a request has what a browser adds by itself: a cookie, or a password that it knows."""
    scheme = environ.get("HTTP_AUTHORIZATION", "").partition(" ")[0].lower()
    return "HTTP_COOKIE" in environ or scheme not in ("", "bearer")
