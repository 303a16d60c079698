"""The users: a login and a hash of the password, kept in the site, or in a folder with its own users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from BTrees.OOBTree import OOBTree
from zope.interface import implementer

from pipeline import Request
from pipeline.auth.authentication import Basic, Verifier
from pipeline.auth.ended import end_sessions
from pipeline.auth.limiter import Limiter
from pipeline.auth.passwords import Passwords, hash_password
from pipeline.interfaces import IAuthentication
from pipeline.views import adapter
from pipeline_demo.models import Folder, Site

_passwords = Passwords()
_limiter = Limiter()

ADMIN = "admin"


def first_password(site: Site) -> Path | None:
    """Return the file with the first password of the site, beside the file of its database, or None."""
    connection = site._p_jar
    name = getattr(connection.db().storage, "_file_name", None) if connection is not None else None
    return None if name is None else Path(name).with_name("first-password")


def check(request: Request, login: str, password: str) -> str | None:
    """Return the principal of a login, which is the login itself, or None if the password is wrong."""
    site = request.root
    if not isinstance(site, Site):
        return None
    if not _is_right(site.users, login, password):
        return None
    if login == ADMIN and (file := first_password(site)) is not None:
        file.unlink(missing_ok=True)
    return login


def _is_right(users: Any, login: str, password: str) -> bool:
    """Return whether this is the password of a user. A hash with old parameters is replaced."""

    def save(new: str) -> None:
        database = getattr(users, "_p_jar", None)
        if database is None or not database.isReadOnly():
            users[login] = new

    return _passwords.verify(users.get(login), login, password, save)


class EndedSessions:
    """The mapping of a site that remembers which sessions have ended. To read it changes nothing."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def get(self, principal: str) -> str | None:
        return self.site.ended.get(principal) if self.site.ended is not None else None

    def __setitem__(self, principal: str, text: str) -> None:
        if self.site.ended is None:
            self.site.ended = OOBTree()
        self.site.ended[principal] = text


def sessions(request: Request) -> EndedSessions:
    """Return the mapping of the site that remembers which sessions have ended, for ``authenticate``."""
    return EndedSessions(request.root)


def set_password(site: Site, login: str, password: str) -> None:
    """Let ``login`` in with ``password``, and with no other. All sessions of the user end."""
    site.users[login] = hash_password(password)
    end_sessions(EndedSessions(site), login)


def remove_user(place: Folder, login: str) -> None:
    """Remove a user of the site or of a folder, with the grants of the user. All sessions of the user end."""
    del place.users[login]
    principal = login if isinstance(place, Site) else f"{login}@{place.realm}"
    place.__grants__ = {holder: held for holder, held in place.__grants__.items() if holder != principal}
    if isinstance(place, Site):
        end_sessions(EndedSessions(place), login)


def let_edit(site: Site, login: str) -> None:
    """Let a user of the site change everything in it."""
    site.__grants__ = {**site.__grants__, login: frozenset({"edit"})}


def add_member(folder: Folder, login: str, password: str) -> None:
    """Let ``login`` in with ``password`` in this folder and below it, to change what is there.

    The folder must have its place in the site: no two places have a principal of one name.
    """
    if folder.users is None:
        names, place = [], folder
        while place.__parent__ is not None:
            names.append(str(place.__name__))
            place = place.__parent__
        folder.users, folder.realm, folder.__grants__ = OOBTree(), "/" + "/".join(reversed(names)), {}
    folder.users[login] = hash_password(password)
    folder.__grants__ = {**folder.__grants__, f"{login}@{folder.realm}": {"edit"}}


@implementer(IAuthentication)
class Members(Basic):
    """The users of a folder, by HTTP basic: a browser keeps them apart by the address of the folder."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(Verifier(self.check, _limiter), folder.title)
        self.folder = folder

    def check(self, request: Request, login: str, password: str) -> str | None:
        return f"{login}@{self.folder.realm}" if _is_right(self.folder.users, login, password) else None


@adapter(Folder, IAuthentication)
def members_of(folder: Folder) -> Members | None:
    """Return the users of a folder that has its own, else None. The function ``check`` knows those of the site."""
    return Members(folder) if folder.users is not None and not isinstance(folder, Site) else None
