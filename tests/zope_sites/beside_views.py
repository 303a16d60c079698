"""New views of a Zope site, beside its old ones."""

from __future__ import annotations

from typing import Any

from AccessControl import getSecurityManager
from OFS.Folder import Folder
from OFS.SimpleItem import SimpleItem

from pipeline import Response, redirect, view

EDIT = "Change Images and Files"


@view(context=Folder, name="report")
def report(folder: Any, request: Any) -> str:
    may = getSecurityManager().checkPermission(EDIT, folder)
    who = f"{request.principal} {request.environ.get('REMOTE_USER')}"
    return f"{folder.absolute_url()} {who} {sorted(request.user.getRolesInContext(folder))} {may}"


@view(context=Folder, name="managed", permission="View management screens")
def managed(folder: Any, request: Any) -> str:
    return report(folder, request)


@view(context=Folder, name="asks")
def asks(folder: Any, request: Any, response: Response) -> str:
    response.status = 401
    return "Say who you are."


@view(context=Folder, name="report", methods=("POST",), permission="View management screens")
def rename(folder: Any, request: Any) -> Any:
    folder.manage_changeProperties(title="Renamed")
    folder.manage_permission("View", ["Manager"])
    return redirect(f"{folder.absolute_url()}/page", 303)


@view(context=SimpleItem, name="seen", permission="View")
def seen(item: Any, request: Any) -> str:
    return f"{item.getId()} in {item.aq_parent.getId()}"
