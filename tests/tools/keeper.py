"""Elements from outside: one that keeps a lock file, serves one process only and has a secret option; and a twin of
each element of ours, with the same facts and another name."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import Any

from pipeline import Request, element
from pipeline.composition import Element, Offers
from pipeline.elements.authenticate import authenticate
from pipeline.elements.forms import forms
from pipeline.elements.log import log
from pipeline.elements.sendfile import sendfile
from pipeline.elements.session import session
from pipeline.elements.sql import sql
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import zodb
from pipeline.interfaces import ConfigurationError, Facts, Handler, Unavailable
from pipeline.request import on_first_use


class KeeperRequest(Request):
    """What ``keeper`` adds to a request."""

    kept: str = on_first_use()
    """The name of the process that has the lock."""


def facts(*, lock: str, token: str, server: str, **options: Any) -> Facts:
    return Facts(
        writes=(lock,),
        leftovers=(lock,),
        one_process=f"it locks {lock}",
        servers=(server,) if server else (),
        secrets=("token",),
        max_body=1000,
        limits={413: ("most",)},
        probe=lambda request: request.kept,
        hosts=("keeper.example",),
        useless_without="keys",
        advice=(("keeper tells its process to every visitor", "Leave it out."),),
        distrusts=lambda peer, form: f"keeper believes nobody at {peer}",
    )


@element(adds=KeeperRequest, outside={"publisher": "views read request.kept"}, facts=facts)
def keeper(next: Handler, *, lock: str, token: str, server: str = "", most: int = 1000) -> Offers:
    """Provide the name of the process that has the lock.

    lock    path of the file that it keeps while it runs
    token   secret of the server
    server  host:port of the server that it registers at
    most    bytes that it takes
    """
    if not token:
        raise ConfigurationError("keeper: option 'token' is empty")
    mine: list[str] = []

    def take(request: Request) -> str:
        if not mine:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                raise Unavailable(f"another process has {lock}") from None
            mine.append(Path(lock).name)
        return mine[0]

    return Offers(next, kept=take)


def twin(element: Element) -> Element:
    """Return an element of another name that does nothing, with the options, place and facts of an element."""

    @wraps(element.factory)
    def factory(next: Handler, **options: Any) -> Handler:
        return next

    contract = element.contract._replace(name=f"twin_of_{element.name}", adds=None, between=None)
    return Element(factory, contract)


twins = {one.name: twin(one) for one in (authenticate, forms, log, sendfile, session, sql, vhost, zodb)}
globals().update({element.name: element for element in twins.values()})
