"""Ask a wiki of docs/howto/pyramid.rst what the functional tests of Pyramid's tutorial ask, and print the answers.

``python ask_a_wiki.py INI``, in a process of its own, since the wikis before and after have modules of one name.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from paste.deploy import loadapp
from webtest import TestApp

HOST = "wiki.example"
OWN = {"Origin": f"http://{HOST}"}
"""The header by which a browser says that the site itself sends a form."""


class Visitor:
    """A browser. Its methods return the status, the title of the page and the link to the login or logout."""

    def __init__(self, app: object, name: str = "") -> None:
        self.client = TestApp(app, extra_environ={"HTTP_HOST": HOST})
        self.name = name

    def sees(self, path: str) -> str:
        self.answer = self.client.get(path, status="*")
        return self.seen(f"{self.name or 'anyone'} gets {path}")

    def sends(self, **fields: str) -> str:
        """Fill the form of the page and send it."""
        for name, value in fields.items():
            self.answer.form[name] = value
        self.answer = self.answer.form.submit("form.submitted", headers=OWN, status="*")
        return self.seen(f"{self.name or 'anyone'} sends {' '.join(fields)}")

    def seen(self, did: str) -> str:
        if 300 <= self.answer.status_int < 400:
            place = urlsplit(self.answer.location)
            assert place.netloc == HOST
            what = place.path.rstrip("/") or "/"  # Pyramid ends the addresses of objects with a slash
        else:
            what = " ".join(re.search(r"<title>(.*)</title><a [^>]*>(\w+)</a>", self.answer.text).groups())  # type: ignore[union-attr]
        return f"{did}: {self.answer.status_int} {what}"

    def reads(self) -> str:
        """Return the text of the page."""
        return re.search("<p>(.*?)</p>", self.answer.text)[1]  # type: ignore[index]


def asked(app: object) -> list[str]:
    """Return what an anonymous visitor, a viewer and an editor see."""
    anyone, viewer, editor = Visitor(app), Visitor(app, "viewer"), Visitor(app, "editor")
    lines = [anyone.sees(path) for path in ("/", "/FrontPage", "/None", "/FrontPage/edit_page", "/add_page/New")]
    lines += [anyone.sees("/login"), f"then back to {anyone.answer.form['came_from'].value}"]
    lines += [anyone.sends(login="viewer", password="wrong"), anyone.sends(login="none", password="")]
    for user in (viewer, editor):
        user.sees("/login?came_from=FrontPage")
        lines += [user.sends(login=user.name, password=user.name)]
        lines += [user.sees(path) for path in ("/FrontPage", "/FrontPage/edit_page", "/add_page/New")]
    lines += [editor.sends(body="<New> as [[FrontPage]] and [[Other]]"), editor.sees("/New"), editor.reads()]
    editor.sees("/New/edit_page")
    lines += [editor.sends(body="Changed"), anyone.sees("/New"), anyone.reads()]
    lines += [viewer.sees("/logout"), viewer.sees("/FrontPage")]
    lines += [viewer.sees("/login?login=viewer&password=viewer&came_from=/New&form.submitted=1")]
    anyone.answer = anyone.client.post("/New/edit_page", {"body": ""}, headers=OWN, status="*")
    return [*lines, anyone.seen("anyone sends a POST")]


if __name__ == "__main__":
    ini = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(ini.parent))
    site = loadapp(f"config:{ini}")
    if len(sys.argv) > 2:  # a page that the other site has stored
        visitor = Visitor(site)
        print(visitor.sees(sys.argv[2]), visitor.reads(), sep="\n")
    print(*asked(site), sep="\n")
