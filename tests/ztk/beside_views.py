"""A new view of the wiki of examples/grok, beside its old ones."""

from __future__ import annotations

from typing import Any

from grokwiki.app import Page, Wiki
from zope.security import checkPermission

from pipeline import redirect, view


@view(context=Wiki, name="titles")
def titles(wiki: Wiki, request: Any) -> str:
    return ", ".join(wiki[name].title for name in sorted(wiki))


@view(context=Wiki, name="titles", methods=("POST",))
def add(wiki: Wiki, request: Any) -> Any:
    wiki["new"] = Page("New", "Made by a new view.")
    return redirect("/wiki/new", 303)


@view(context=Wiki, name="who")
def who(wiki: Wiki, request: Any) -> str:
    return f"{request.principal} {checkPermission('grokwiki.Edit', wiki)}"


@view(context=Wiki, name="manage", permission="grokwiki.Edit")
def manage(wiki: Wiki, request: Any) -> str:
    return who(wiki, request)


@view(context=Wiki, name="seen", permission="grokwiki.View")
def seen(wiki: Wiki, request: Any) -> str:
    return who(wiki, request)
