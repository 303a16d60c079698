"""``causal``: a visitor reads what the visitor has written, whichever process answers. Needs the extra ``auth``."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from itsdangerous import BadData

from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import SignedCookie
from pipeline.composition import Offers, element
from pipeline.cookies import MOST_OF_A_NAME
from pipeline.database.transactions import DatabaseRequest
from pipeline.database.written import NOTHING, Positions, seen_by
from pipeline.http.header_lists import OF_EVERY_ANSWER
from pipeline.interfaces import Facts, Handler
from pipeline.request import SAFE_METHODS
from pipeline.response import Response

COOKIE = "written"
"""Start of the name of each cookie. Under https it has a prefix."""
NAMES = re.compile(rf"(?:__Host-)?{COOKIE}[-0-9a-f]{{0,17}}\.[0-9a-f]{{8}}(?==)")
HEADER = "X-Written"
"""Name of the header of requests and answers, for programs that keep no cookies."""
OF_EVERY_ANSWER.add(HEADER)
MOST = 8
"""Databases that a cookie tells of."""


@element(
    adds=DatabaseRequest,
    provides=("written",),
    facts=lambda *, keys, **options: Facts(writes=(keys,), useless_without="database"),
    outside={
        "database": "a connection has to know what the visitor has written before it begins",
        "errors": "an answer to an error tells what is stored, too",
        "transaction": "it tells what the commit has stored",
    },
)
def causal(next: Handler, *, keys: str, max_age: int = 60) -> Offers:
    """Let each visitor read what the visitor has written, also if another process of the site answers.

    keys     file with the keys that sign the cookie, one per line, the newest last; made if it is missing. All
             processes have the same one. ``authenticate`` and ``session`` may use it, too
    max_age  seconds for which the browser keeps the cookie. By then each process knows of the commit

    A client of ZEO learns of the commits of other processes a moment after them. An answer that has committed sets
    a signed cookie with the id of the last transaction, and deletes those that the browser has sent. Its name is
    new each time: of two answers that arrive in the other order, the earlier one would hide the later one.
    A process that has not seen the transaction asks the server before the next request of this visitor begins. For
    a visitor without the cookie, and in a process that has seen the transaction, nothing is asked. A database in a
    file, and RelStorage, have no cookie: they are never behind. With ``read_urls`` of ``sql`` the cookie tells
    which replicas have what the visitor has written.

    A program without cookies sends the header ``X-Written`` of the last answer that had one. A value that is not
    signed by one of the keys is ignored. An old one costs at most one question. A database that was restored from
    a backup may never have been at a position that is sent: it is asked, and the next answer forgets the position.
    """
    cookie = SignedCookie(COOKIE, "what is written", read_keys(keys), max_age)

    def causal(request: DatabaseRequest, response: Response) -> None:
        environ = request.environ
        if "HTTP_COOKIE" in environ or "HTTP_X_WRITTEN" in environ:
            request.written = sent_with(request)
        sent = request.written
        next(request, response)
        if request.outcome or request.written is not sent:
            tell(request, response, sent)

    def names_in(request: DatabaseRequest) -> list[str]:
        header = request.environ.get("HTTP_COOKIE", "")
        if COOKIE not in header:
            return []
        start = cookie.name_for(request)
        names = dict.fromkeys(name for name in NAMES.findall(header) if name[:-9] == start)
        return list(names)[: 3 * MOST_OF_A_NAME]  # answers at once set one each

    def sent_with(request: DatabaseRequest) -> Positions:
        seen: dict[str, int] = {}
        for name in names_in(request):
            for sent in cookie.values(request, name):
                add(seen, sent)
        if header := request.environ.get("HTTP_X_WRITTEN"):
            with suppress(BadData, ValueError, TypeError):
                add(seen, cookie.loads(header)[0])
        return seen or NOTHING

    def tell(request: DatabaseRequest, response: Response, sent: Positions) -> None:
        positions = seen_by(request)
        if positions != sent:
            text = str(cookie.serializer.dumps(positions))
            cookie.set(request, response, text, f"{cookie.name_for(request)}.{secrets.token_hex(4)}")
            for name in names_in(request)[:MOST_OF_A_NAME]:  # a proxy refuses an answer whose head is too long
                cookie.set(request, response, "", name)
            response.headers[HEADER] = text
            if request.environ["REQUEST_METHOD"] in SAFE_METHODS:
                response.headers["Cache-Control"] = "no-store"  # the cookie is for this visitor alone

    return Offers(causal)


def add(seen: dict[str, int], sent: object) -> None:
    """Add the positions that a cookie has, as far as they are later ones."""
    if isinstance(sent, dict):
        for name, position in list(sent.items())[:MOST]:
            if isinstance(position, int) and position > seen.get(name, 0):
                seen[name] = position
