"""Views of the older versions of a document: who made them and when, what has changed since, and the way back."""

from __future__ import annotations

from webob.exc import HTTPNotFound

from pipeline import Response, view
from pipeline_demo.models import Document, Version
from pipeline_demo.request import FormRequest, PageRequest
from pipeline_demo.text import difference
from pipeline_demo.views.edit import check_revision
from pipeline_demo.views.forms import Problems, read_form
from pipeline_demo.views.page import answer, describe, done


@view(context=Document, name="history", permission="edit")
def history(context: Document, request: PageRequest, response: Response, revision: int = 0) -> object:
    """Show the list of versions; with ``revision``, also what has changed since that version."""
    return _page(context, request, response, _version(context, revision) if revision else None, Problems())


@view(context=Document, name="history", methods=("POST",), permission="edit")
def restore(context: Document, request: FormRequest, response: Response) -> object:
    """Make an older version the current one. The current one becomes an older version."""
    form = read_form(request)
    version = _version(context, form.number("restore"))
    check_revision(form, context)
    if form.problems:
        response.status_int = form.problems.status
        return _page(context, request, response, version, form.problems)
    context.edit(version.title, version.text, version.format, request.principal)
    return done(request, response, context, f"Revision {version.revision} is the current one again.")


def _version(document: Document, revision: int | None) -> Version:
    for version in document.versions:
        if version.revision == revision:
            return version
    raise HTTPNotFound("This version is not kept.")


def _page(
    context: Document, request: PageRequest, response: Response, version: Version | None, problems: Problems
) -> object:
    versions = [
        {"revision": one.revision, "title": one.title, "modified": one.modified.isoformat(), "author": one.author}
        for one in context.versions
    ]
    return answer(
        request,
        response,
        "history.html",
        describe(request, context) | {"versions": versions, "errors": problems},
        context,
        difference=difference(version.text, context.text) if version is not None else None,
        problems=problems,
        values={"revision": str(context.revision)},
        version=version,
    )
