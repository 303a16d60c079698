"""``pipeline demo-user INI LOGIN``: add a user to the demo site, give a user a new password, or remove a user."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.auth.passwords import MAX_PASSWORD
from pipeline.database.places import loggable_uri
from pipeline.loading.command_line import add_argument, options_of, plan_of
from pipeline_demo.filing import printable
from pipeline_demo.models import Folder, Site
from pipeline_demo.names import BadText, clean_name
from pipeline_demo.site import KEY, Unreachable, connected, root
from pipeline_demo.users import add_member, let_edit, remove_user, set_password

SHORTEST = 8
"""Characters of a password."""
LONGEST_LOGIN = 100
ROOT = "pipeline_demo:root"
"""The option ``root`` of the database of a demo site."""


class InvalidUser(Exception):
    """A login, folder or password that is refused, with the reason in words."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status: 0 done, 1 refused or not reached, 2 wrong arguments."""
    arguments = options_of(_parser(), sys.argv[1:] if argv is None else argv)
    try:
        _check_login(arguments.login)
        folder = [clean_name(name) for name in arguments.folder.split("/") if name]
        uri = _uri_of(arguments.ini, arguments.variables)
        password = "" if arguments.remove else _read_password()
        with connected(uri) as connection, connection.transaction_manager:
            if KEY not in connection.root():
                raise InvalidUser(f"there is no demo site in {loggable_uri(uri)}: serve it once, which makes it")
            site = root(connection.root())
            place = _place(site, folder)
            if arguments.remove:
                done = _remove(place, arguments.login)
            else:
                done = _set(site, place, arguments.login, password, arguments.edit)
    except (BadText, InvalidUser, Unreachable) as error:
        print(f"pipeline demo-user: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.login}: {done}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pipeline demo-user",
        description="Add a user to the demo site, or give a user a new password, which ends all sessions of the "
        "user. The password is asked for, or is the first line of the standard input if that is not a terminal. "
        "The server must be stopped, unless the database is one that several processes share.",
    )
    parser.add_argument("ini", metavar="INI", help="the ini of the site, such as etc/deploy.ini")
    parser.add_argument("login", metavar="LOGIN", help="name of the user, such as admin")
    add_argument(parser, "variables")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--edit", action="store_true", help="let the user change everything in the site")
    what.add_argument("--remove", action="store_true", help="remove the user, and end all sessions of the user")
    parser.add_argument(
        "--in",
        dest="folder",
        default="/",
        metavar="PATH",
        help="a folder: the user is known in it and below it alone, and may change what is there",
    )
    return parser


def _uri_of(ini: str, variables: Sequence[str]) -> str:
    """Return the URI of the demo's database, by an ini. Refuse a file that is not there: it would be made."""
    options = [step.element.options for chain in plan_of(ini, variables) for step in chain.steps if step.element]
    uris = [str(each["uri"]) for each in options if each.get("root") == ROOT and each.get("uri")]
    if not uris:
        raise InvalidUser(f"{ini} has no demo site: no database in it has root = {ROOT}")
    path = Path(uris[0].removeprefix("file://").partition("?")[0])
    if uris[0].startswith("file:") and not path.exists():
        raise InvalidUser(f"the database {path} of {ini} is not there: serve the site once, which makes it")
    return uris[0]


def _check_login(login: str) -> None:
    """Refuse a login that HTTP basic cannot send, or that looks like a user of a folder."""
    if not login or login != login.strip() or len(login) > LONGEST_LOGIN or not login.isprintable():
        raise InvalidUser(f"a login must have 1 to {LONGEST_LOGIN} printable characters and no blank around it")
    if ":" in login or "/" in login:
        raise InvalidUser(f"the login {printable(login)} has a ':' or a '/' in it: please choose another one")


def _read_password() -> str:
    if sys.stdin.isatty():
        password = getpass.getpass("New password: ")
        if getpass.getpass("Once more: ") != password:
            raise InvalidUser("the two passwords differ: nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not SHORTEST <= len(password) <= MAX_PASSWORD:
        raise InvalidUser(f"a password must have {SHORTEST} to {MAX_PASSWORD} characters")
    return password


def _place(site: Site, way: Sequence[str]) -> Folder:
    """Return the folder at the end of the path."""
    place: Folder = site
    for name in way:
        inner = place.get(name)
        if not isinstance(inner, Folder):
            raise InvalidUser(f"there is no folder {printable('/' + '/'.join(way))} in the site")
        place = inner
    return place


def _remove(place: Folder, login: str) -> str:
    """Remove a user of the site or of a folder. Return a sentence on the result."""
    if place.users is None or login not in place.users:
        raise InvalidUser(f"there is no user {printable(login)} here")
    remove_user(place, login)
    return "the user was removed"


def _set(site: Site, place: Folder, login: str, password: str, edit: bool) -> str:
    """Set the password in the site, or in a folder. Return a sentence on the result."""
    known = place.users is not None and login in place.users
    if place is site:
        set_password(site, login, password)
        if edit:
            let_edit(site, login)
    else:
        add_member(place, login, password)
    return "the password was changed" if known else "the user was added"


if __name__ == "__main__":
    sys.exit(main())
