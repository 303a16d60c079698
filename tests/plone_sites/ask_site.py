"""Ask a Plone site out of an ini, in a process of its own: ``ask_site.py INI ANSWERS`` pickles the answers."""

from __future__ import annotations

import os
import pickle
import random
import re
import sys
from pathlib import Path
from typing import Any

import Zope2
from paste.deploy import loadapp

from plone_sites.asked import TABLE
from zope_sites.stored import stored
from ztk.asking import ask


def main(ini: str, answers: str) -> None:
    """Ask all, and write what is seen."""
    os.urandom = random.Random(0).randbytes  # names by chance are the same in each process
    app = loadapp(f"config:{ini}")
    filled = {"cookie": "", "token": ""}
    found = [seen(app, asked, filled) for asked in TABLE]
    Path(answers).write_bytes(pickle.dumps(found))


def seen(app: Any, asked: Any, filled: dict[str, str]) -> Any:
    """Return status, headers, body, the user, and what was stored."""
    for name, value in filled.items():
        mark = f"{{{name}}}"
        headers = {
            key: found.replace(mark, value) if isinstance(found, str) else found
            for key, found in asked.headers.items()
        }
        asked = asked._replace(
            path=asked.path.replace(mark, value),
            headers=headers,
            body=asked.body.replace(mark.encode(), value.encode()),
        )
    storage = Zope2.DB.storage
    before = storage.lastTransaction()
    random.seed(0)  # plone.protect chooses one of its keys
    try:
        answer = ask(app, asked.method, asked.path, {"HTTP_ACCEPT": "text/html", **asked.headers}, asked.body)
    except Exception as error:
        return repr(error), [], b"", None, stored(Zope2.DB, before)
    for name, value in answer.headers:
        if name == "Set-Cookie" and value.startswith("__ac=") and "deleted" not in value:
            filled["cookie"] = value.partition(";")[0]
    token = re.search(rb'name="_authenticator"[^>]* value="(\w+)"', answer.body)
    if token is not None:
        filled["token"] = token[1].decode()
    user = answer.environ.get("REMOTE_USER")
    return answer.status, answer.headers, answer.body, user, stored(Zope2.DB, before)


if __name__ == "__main__":
    main(*sys.argv[1:])
